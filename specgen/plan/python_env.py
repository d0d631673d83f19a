"""An environment whose behaviour is a Python class: the Protocol that it satisfies, records, and a thin class."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.model import Checked, CheckedEnv, Entry, PythonSource
from specgen.check.programs.chain_state import EnvPieces
from specgen.check.programs.python_env import PythonEnvPrograms
from specgen.expr import Type
from specgen.literals import literal
from specgen.plan.data import data_plan
from specgen.plan.docs import env_doc
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
from specgen.plan.functions import Planned, entry_doc, field_doc, plan_function
from specgen.plan.interface import (
    EnvInterface,
    Extra,
    Output,
    RecordField,
    flag_fields,
)
from specgen.plan.model import Argument, ClassPlan, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.python_protocol import protocol_items, setup_params
from specgen.plan.spec_text import spec_code
from specgen.plan.writer import draw_text
from specgen.program.program import Input, Program


def plan_python_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan an environment with a `python:` field."""
    env = checked.value
    state = tuple(_field(e, e.type) for e in env.state)
    observed = tuple(_field(e, e.type) for e in env.observation)
    rewards = tuple(_field(e, e.type) for e in env.reward)
    root = (*state, *observed, *flag_fields(env))
    programs = PythonEnvPrograms(env)
    component, parts = programs.parts()
    reset = _planned(
        env, parts.reset, f"A fresh episode in every row of the batch, by `{_source(env).text}`."
    )
    advance = _planned(env, parts.advance, f"One step, by `{_source(env).text}`.")
    interface = EnvInterface(
        env,
        root,
        (*root, *rewards),
        reset.call,
        advance.call,
        None,
        None,
        tuple(map(draw_text, reset.draws)),
        rewards=tuple(Output(e.name, e.dotted, e.key, e.type, e.spec, e.doc) for e in env.reward),
        params=env.params,
        extra={e.dotted: Extra(spec_code(e.spec)) for e in env.observation},
        pieces=EnvPieces(component, parts, (programs.dynamics, *programs.fixed), programs.action),
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
        reset.plan,
        advance.plan,
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


def _planned(env: CheckedEnv, program: Program | None, summary: str) -> Planned:
    """A function that calls the class, documented."""
    assert program is not None
    annotations = {
        "dynamics": dynamics_type(env),
        "params": f"{env.name}Params",
        "consts": f"{env.name}Consts",
    }
    entries = {entry.key: entry for entry in env.entries}

    def describe(one: Input) -> str:
        told = entries.get(one.symbol.key or ())
        return "bool [*batch, 1]; it tells the batch shape." if told is None else entry_doc(told)

    return plan_function(program, summary, annotations, describe)


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
