"""An environment whose behaviour is a Python class: the Protocol that it satisfies, records, and a thin class."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.model import ENDING_FLAGS, Checked, CheckedEnv, Entry, Key, PythonSource, snake
from specgen.expr import DrawSite, Type
from specgen.literals import literal
from specgen.plan.data import data_plan
from specgen.plan.docs import env_doc, items_doc
from specgen.plan.env import consts_record, params_record
from specgen.plan.env_class import (
    advance_method,
    advance_text,
    build_method,
    entries_method,
    group_attribute,
    init_method,
    mask_attribute,
    method,
    read_method,
    reset_text,
    specs_method,
)
from specgen.plan.env_context import (
    NOT_DONE,
    EnvContext,
    draw_doc,
    entry_doc,
    field_doc,
    fixed_doc,
)
from specgen.plan.env_flags import reset_flags, with_batch
from specgen.plan.interface import (
    Call,
    EnvInterface,
    Extra,
    Output,
    RecordField,
    flag_fields,
)
from specgen.plan.model import Argument, ClassPlan, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.per_env import assign_params
from specgen.plan.python_protocol import of_class, protocol_items, setup_params
from specgen.plan.spec_text import spec_code
from specgen.plan.writer import Writer, draw_text


def plan_python_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan an environment with a `python:` field."""
    env = checked.value
    state = tuple(_field(e, e.type) for e in env.state)
    observed = tuple(_field(e, e.type) for e in env.observation)
    rewards = tuple(_field(e, e.type) for e in env.reward)
    root = (*state, *observed, *flag_fields(env))
    reset, draws = _reset(env)
    advance = _advance(env, (*root, *rewards))
    interface = EnvInterface(
        env,
        root,
        (*root, *rewards),
        Call(reset.name, tuple(a.name for a in reset.args), tuple(f.dotted for f in root), f"{env.name}Root"),
        Call(
            advance.name,
            (*_leading(env), *(e.dotted for e in (*env.state, *env.action))),
            tuple(f.dotted for f in (*root, *rewards)),
            f"{env.name}Next",
        ),
        None,
        None,
        tuple(map(draw_text, draws)),
        rewards=tuple(Output(e.name, e.dotted, e.key, e.type, e.spec, e.doc) for e in env.reward),
        params=env.params,
        extra={e.dotted: Extra(spec_code(e.spec)) for e in env.observation},
    )
    items: list[Item] = []
    if env.params:
        items.append(params_record(env))
    if env.consts:
        items.append(consts_record(env))
    items += protocol_items(env, _source(env))
    items += [
        _record(env, "Root", root, "What an episode stands at."),
        _record(env, "Next", (*root, *rewards), "What a step gives."),
        reset,
        advance,
        _class(interface),
        *data_plan(interface),
    ]
    return items, interface


def python_attributes(env: CheckedEnv) -> tuple[str, ...]:
    """Class attributes that say which class is behind the environment, and how it is called."""
    source = _source(env)
    form = ("_python_form = SimulatorDynamics",) if source.stateful else ()
    return (
        f"dynamics: {dynamics_type(env)}",
        f"_python_class = {literal(source.text)}",
        f"_python_records = ({env.name}Reset, {env.name}Step)",
        *form,
    )


def dynamics_type(env: CheckedEnv) -> str:
    """The type of the user's object behind its boundary."""
    form = "SimulatorDynamics" if _source(env).stateful else "VectorDynamics"
    return f"{form}[{env.name}Protocol]"


def python_init(interface: EnvInterface, env: CheckedEnv) -> FunctionPlan:
    """The constructor of an environment, or of a chain, over the class of `env`."""
    plan = init_method(interface, env.name)
    stateful = _source(env).stateful
    base = "" if stateful else "batch_size=batch_size, "
    keywords = [a for a in plan.keyword_only if not (stateful and a.name == "batch_size")]
    return replace(
        plan,
        body=(Line(f"super().__init__({base}device=device, check_domains=check_domains)"), *plan.body[1:]),
        keyword_only=(*keywords, Argument("check_domains", "bool", "False")),
    )


def make_python(env: CheckedEnv, consts: str = "consts") -> FunctionPlan:
    """`_make_python`: imports the class when an environment is made; its type is checked where it stands.

    Args:
        env: the environment.
        consts: the attribute that holds its constants.
    """
    source = _source(env)
    fields = {
        "params": _setup_params(env),
        "consts": f"self.{consts}" if env.consts else "",
        "dims": f"{env.name}Dims()" if env.dims else "",
        "device": "" if source.stateful else "self.device",
    }
    given = ", ".join(f"{name}={text}" for name, text in fields.items() if text)
    # the class may be called like something that this method reads
    records = (f"{env.name}{kind}" for kind in ("Setup", "SetupParams", "Protocol", "Dims"))
    own = source.name in ("Callable", *records)
    name = "Dynamics" if own else source.name
    alias = " as Dynamics" if own else ""
    return method(
        "_make_python",
        (),
        f"{env.name}Protocol",
        "",
        f"from {source.module} import {source.name}{alias}\n",
        f"make: Callable[[{env.name}Setup], {env.name}Protocol] = {name}",
        f"return make({env.name}Setup({given}))",
    )


def _setup_params(env: CheckedEnv) -> str:
    """The parameters that the class is made from; nothing if there are none."""
    given = setup_params(env)
    if not given or not env.differing:
        return "self.params" if given else ""
    values = ", ".join(f"{param.name}=self.params.{param.name}" for param in given)
    return f"{env.name}SetupParams({values})"


def _source(env: CheckedEnv) -> PythonSource:
    if env.python is None:
        raise AssertionError("no Python class")
    return env.python


def _field(entry: Entry, type: Type) -> RecordField:
    return RecordField(entry.name, entry.dotted, entry.key, type, entry.spec.interval, entry.doc)


def _record(env: CheckedEnv, kind: str, fields: tuple[RecordField, ...], doc: str) -> RecordPlan:
    return RecordPlan(
        f"{env.name}{kind}", (doc,), tuple(Field(f.name, "Tensor", doc=field_doc(f)) for f in fields)
    )


def _leading(env: CheckedEnv) -> tuple[str, ...]:
    """The arguments of the step function before state and actions; done flags tell the batch shape."""
    return ("dynamics",) if _source(env).stateful else ("dynamics", "done")


def _reset(env: CheckedEnv) -> tuple[FunctionPlan, list[DrawSite]]:
    """The reset function, and the draws of parameters that it takes."""
    context = EnvContext(env)
    writer = Writer(context.fixed, {}, NOT_DONE)
    fills = assign_params(writer, env.params, f"envs.{env.name}", NOT_DONE)
    drawn = [param.draw for param in env.params if param.draw is not None]
    leading = context.fixed_arguments(drawn, params=fills)
    given = [e.name for e in (*of_class(env, env.state), *of_class(env, env.observation))]
    made, flags = reset_flags(env)
    values = [*(f"{e.name}={e.name}" for e in (*env.state, *env.observation)), *flags]
    doc = (
        f"A fresh episode in every row of the batch, by `{_source(env).text}`.",
        "",
        "Args:",
        "    dynamics: the class's object.",
        *fixed_doc(leading),
        "    not_done: bool [*batch, 1], all False; it tells the batch shape and the device.",
        *items_doc(f"{site.name}: {draw_doc(site)}" for site in writer.draws),
    )
    handed = f", {_episode_params(env)}" if env.differing else ""
    plan = FunctionPlan(
        f"{snake(env.name)}_reset",
        (
            Argument("dynamics", dynamics_type(env)),
            *leading,
            Argument("not_done", "Tensor"),
            *(Argument(site.name, "Tensor") for site in writer.draws),
        ),
        f"{env.name}Root",
        doc,
        (
            *writer.lines,
            Line(f"{_unpacked(given)}dynamics.reset(not_done{handed})"),
            *with_batch(made, context.names),
            Line(f"return {env.name}Root({', '.join(values)})"),
        ),
    )
    return plan, writer.draws


def _episode_params(env: CheckedEnv) -> str:
    """The record of the parameters that differ between environments, as the class is handed it."""
    return f"{env.name}EpisodeParams({', '.join(f'{param.name}={param.name}' for param in env.differing)})"


def _advance(env: CheckedEnv, fields: tuple[RecordField, ...]) -> FunctionPlan:
    state = [e.name for e in of_class(env, env.state)]
    flags = [("_".join((*prefix, flag))) for prefix in env.done for flag in ENDING_FLAGS]
    returned = (*of_class(env, env.observation), *env.reward)
    results = _unpacked([*(f"next_{name}" for name in state), *(e.name for e in returned), *flags])
    inputs = [*(e.name for e in env.action)]
    kept: dict[str, str] = {}
    if not _source(env).stateful:
        record = ", ".join(f"{name}={name}" for name in state)
        inputs = ["done", f"{env.name}State({record})", *inputs]
        inputs += [f"params={_episode_params(env)}"] if env.differing else []
    lines = []
    if _source(env).stateful and env.differing:
        # what it goes on with, whatever the tensordict says
        lines.append(Line(f"params: {env.name}EpisodeParams = dynamics.episode_params()"))
        kept = {param.name: f"params.{param.name}" for param in env.differing}
    lines.append(Line(f"{results}dynamics.step({', '.join(inputs)})"))
    for prefix in env.done[1:]:
        # where the root ends, everything does
        up = ".unsqueeze(-1)" * len(env.done_dims[prefix])
        for flag in ENDING_FLAGS:
            name = "_".join((*prefix, flag))
            lines.append(Line(f"{name} = {name} | {flag}{up}"))
    kept |= {name: f"next_{name}" for name in state}
    values = [f"{f.name}={_value(f.key, kept.get(f.name, f.name), env)}" for f in fields]
    lines.append(Line(f"return {env.name}Next({', '.join(values)})"))
    names = {"dynamics": dynamics_type(env)}
    args = [Argument(name, names.get(name, "Tensor")) for name in _leading(env)]
    args += [Argument(e.name, "Tensor") for e in (*env.state, *env.action)]
    told = ["    done: bool [*batch, 1]; it tells the batch shape."] if "done" in _leading(env) else []
    doc = (
        f"One step, by `{_source(env).text}`.",
        "",
        "Args:",
        "    dynamics: the class's object.",
        *told,
        *items_doc(f"{e.name}: {entry_doc(e)}" for e in (*env.state, *env.action)),
    )
    return FunctionPlan(f"{snake(env.name)}_advance", tuple(args), f"{env.name}Next", doc, tuple(lines))


def _value(key: Key, text: str, env: CheckedEnv) -> str:
    if key[-1] == "done" and key[:-1] in env.done:
        flags = ["_".join((*key[:-1], flag)) for flag in ENDING_FLAGS]
        return " | ".join(flags)
    return text


def _unpacked(names: list[str]) -> str:
    if not names:
        return ""
    return f"({names[0]},) = " if len(names) == 1 else f"{', '.join(names)} = "


def _class(interface: EnvInterface) -> ClassPlan:
    env = interface.env
    attributes = []
    if env.params:
        attributes.append(f"params: {env.name}Params")
    if env.consts:
        attributes.append(f"consts: {env.name}Consts")
    attributes += [*python_attributes(env), *group_attribute(env), *mask_attribute(env)]
    return ClassPlan(
        env.name,
        (f"GeneratedPythonEnv[{literal(f'{env.name}Data')}, {literal(f'{env.name}Specs')}]",),
        env_doc(interface),
        tuple(attributes),
        (
            python_init(interface, env),
            *build_method(interface),
            make_python(env),
            specs_method(interface),
            read_method(interface),
            method("_fresh", (), f"{env.name}Root", "", f"return {reset_text(interface, {})}"),
            advance_method(interface, f"return {advance_text(interface, {})}"),
            entries_method(interface, "_root_entries"),
            entries_method(interface, "_next_entries"),
        ),
    )
