"""A Gymnasium-backed environment: records and a thin class; the dynamics are Gymnasium's."""

from __future__ import annotations

from specgen.check.model import Checked, CheckedEnv
from specgen.expr import full
from specgen.literals import literal
from specgen.plan.data import data_plan
from specgen.plan.docs import env_doc, init_doc
from specgen.plan.env_class import NOT_DONE, entries_method, method, read_method, specs_method, unpacked
from specgen.plan.functions import field_doc
from specgen.plan.interface import EnvInterface, Extra, Output, RecordField, flag_fields
from specgen.plan.model import Argument, ClassPlan, Field, FunctionPlan, Item, Line, RecordPlan
from specgen.plan.spec_text import spec_code


def plan_gym_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan a Gymnasium-backed environment."""
    env = checked.value
    observed = tuple(
        RecordField(e.name, e.dotted, e.key, e.type, e.spec.interval, e.doc) for e in env.observation
    )
    flags = flag_fields(env)
    reward = RecordField("reward", "reward", ("reward",), env.reward[0].type, full("float32"))
    interface = EnvInterface(
        env,
        (*observed, *flags),
        (*observed, *flags, reward),
        None,
        None,
        None,
        None,
        rewards=tuple(Output(e.name, e.dotted, e.key, e.type, e.spec) for e in env.reward),
        extra={e.dotted: Extra(spec_code(e.spec)) for e in env.observation},
    )
    items: list[Item] = [
        _record(env, "Root", interface.root, "What an episode stands at."),
        _record(env, "Next", interface.next, "What a step returned."),
        ClassPlan(
            env.name,
            (f"GeneratedGymEnv[{literal(f'{env.name}Data')}, {literal(f'{env.name}Specs')}]",),
            env_doc(interface),
            (*gym_attributes(env), *(("_gym_lifts = True",) if len(env.observation) == 1 else ())),
            (
                gym_init(interface, env),
                specs_method(interface),
                read_method(interface),
                *_hooks(interface),
                entries_method(interface, "_root_entries"),
                entries_method(interface, "_next_entries"),
            ),
        ),
        *data_plan(interface),
    ]
    return items, interface


def gym_attributes(env: CheckedEnv) -> tuple[str, ...]:
    """Class attributes that say which Gymnasium environment stands behind the class."""
    source = env.gymnasium
    if source is None:
        raise AssertionError("no Gymnasium environment")
    return (
        f"_gym_id = {literal(source.id)}",
        f"_gym_max_episode_steps = {literal(source.max_episode_steps)}",
    )


def gym_init(interface: EnvInterface, env: CheckedEnv) -> FunctionPlan:
    """The constructor of an environment, or of a chain over `env`: keywords go on to `gymnasium.make`.

    Args:
        interface: of the class.
        env: whose declared keywords come first.
    """
    declared = env.gymnasium.kwargs if env.gymnasium is not None else {}
    given = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in declared.items())
    kwargs = f"{{{given}, **gym_kwargs}}" if given else "gym_kwargs"
    return FunctionPlan(
        "__init__",
        (),
        "None",
        init_doc(interface),
        (Line(f"super().__init__(device=device, **{kwargs})"), Line("self._build()")),
        (Argument("device", "DEVICE_TYPING | None", "None"),),
        method=True,
        rest="**gym_kwargs: Any",
    )


def _record(env: CheckedEnv, kind: str, fields: tuple[RecordField, ...], doc: str) -> RecordPlan:
    return RecordPlan(
        f"{env.name}{kind}", (doc,), tuple(Field(f.name, "Tensor", doc=field_doc(f)) for f in fields)
    )


def _hooks(interface: EnvInterface) -> tuple[FunctionPlan, ...]:
    """What resets and steps; with a single observation, rollouts make tensors once for all steps."""
    name = interface.name
    observed = [entry.name for entry in interface.env.observation]
    # a Dict space comes as one tensor a key, in the order of the spec
    unpack = unpacked(observed)
    values = ", ".join(f"{o}={o}" for o in observed)
    fresh = method(
        "_fresh",
        (),
        f"{name}Root",
        "",
        f"{unpack} = self._gym_reset()",
        f"not_done = {NOT_DONE}",
        f"return {name}Root({values}, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())",
    )
    advance = method(
        "_advance",
        (Argument("root", f"{name}Root"), Argument("actions", "tuple[Tensor, ...]")),
        f"{name}Next",
        "",
        f"{unpack}, reward, terminated, truncated = self._gym_step(actions[0])",
        f"return {name}Next({values}, done=terminated | truncated, terminated=terminated, "
        "truncated=truncated, reward=reward)",
    )
    if len(observed) != 1:
        return fresh, advance
    lift = method(
        "_gym_lift",
        (
            Argument("firsts", f"{name}Root"),
            Argument("lengths", "Sequence[int]"),
            Argument("observation", "Tensor"),
            Argument("reward", "Tensor"),
            Argument("terminated", "Tensor"),
            Argument("truncated", "Tensor"),
        ),
        f"{name}Next",
        "",
        f"return {name}Next({observed[0]}=observation, done=terminated | truncated, terminated=terminated, "
        "truncated=truncated, reward=reward)",
    )
    return fresh, advance, lift
