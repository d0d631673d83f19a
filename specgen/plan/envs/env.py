"""A checked environment as records, pure functions and a thin class around them."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import Checked, CheckedEnv, snake
from specgen.check.programs.chain_state import EnvPieces
from specgen.check.programs.env import EnvPrograms
from specgen.code import named
from specgen.plan.data import annotation, data_plan
from specgen.plan.docs import items_doc
from specgen.plan.envs.env_class import advance_call, environment_plan, reset_call
from specgen.plan.envs.picture import picture_function
from specgen.plan.functions import Planned, entry_doc, plan_function
from specgen.plan.interface import Call, EnvInterface, Picture, entry_field, flag_fields
from specgen.plan.items import Item
from specgen.plan.model import Field, FunctionPlan, RecordPlan
from specgen.plan.per_env import record_fields
from specgen.plan.records import step_records
from specgen.program.hoist import GROUP
from specgen.program.hot_cold import Parts, split, with_constants
from specgen.program.program import Input, Program
from specgen.values import replace


def plan_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan a native environment.

    Returns:
        What stands in the generated module, in order, and what a chain needs to know of it.
    """
    env = checked.value
    programs = EnvPrograms(env)
    component = programs.component()
    parts = with_constants(split(component), f"{programs.prefix}_constants", f"{env.name}Constants")
    planner = _Planner(env, parts)
    items: list[Item] = []
    if env.params:
        items.append(params_record(env))
    if env.consts:
        items.append(consts_record(env))
    computed = planner.constants(parts.constants, items)
    items += step_records(
        env.name,
        planner.root,
        planner.next,
        "What a step reads from one time to the next; observations follow from it.",
        "What a step computes for the step after it",
    )
    items += [
        planner.declared(programs.function(one), one.doc or f"`{one.name}` of the schema.")
        for one in env.functions
    ]
    reset = planner.planned(parts.reset, "A fresh episode in every row of the batch.")
    advance = planner.planned(
        parts.advance, "One step of the dynamics: all that the step after it depends on."
    )
    items += [reset.plan, advance.plan]
    reward = planner.derived(parts.reward, "reward", items)
    observe = planner.derived(parts.observe, "observation", items)
    picture = planner.picture(programs.render(), items)
    interface = EnvInterface(
        env=env,
        root=planner.root,
        next=planner.next,
        reset=reset.call,
        advance=advance.call,
        reward=None if reward is None else reward.call,
        observe=None if observe is None else observe.call,
        observations=env.observation,
        rewards=env.reward,
        params=env.params,
        constants=computed,
        picture=picture,
        pieces=EnvPieces(component, parts, (*programs.fixed, *_computed(parts)), programs.action),
    )
    plan = environment_plan(interface, "environment", reset_call(interface), advance_call(interface))
    return [*items, plan, *data_plan(interface)], interface


def params_record(env: CheckedEnv) -> RecordPlan:
    """The constructor keywords as the pure functions take them; what they are is said by the constructor."""
    doc = (f"Constructor keywords of `{env.name}`, which says what they are.",)
    fields = tuple(replace(field, doc="") for field in record_fields(env.params))
    return RecordPlan(f"{env.name}Params", doc, fields)


def consts_record(env: CheckedEnv) -> RecordPlan:
    """The constant tables as the pure functions take them."""
    fields = tuple(Field(c.name, "Tensor", doc=c.doc or str(c.type)) for c in env.consts)
    return RecordPlan(f"{env.name}Consts", (f"Constant tables of `{env.name}`.",), fields)


class _Planner:
    """Records and documented functions of an environment.

    Attributes:
        root: the fields of the Root record: state and done flags.
        next: the fields of the Next record: those, and rewards that are computed with the state.
    """

    def __init__(self, env: CheckedEnv, parts: Parts) -> None:
        self.env = env
        self.root = (*map(entry_field, env.state), *flag_fields(env))
        promoted = {output.key for output in parts.promoted}
        self.next = (*self.root, *(entry_field(entry) for entry in env.reward if entry.key in promoted))
        self._annotations = {
            record: named(f"{env.name}{record.capitalize()}") for record in ("params", "consts", "constants")
        }

    def constants(self, program: Program | None, items: list[Item]) -> Call | None:
        """The function that is called once, and its record; added to `items`."""
        if program is None:
            return None
        doc = f"What constant tables of `{self.env.name}` alone decide: computed once, read at every step."
        fields = tuple(
            Field(output.name, "Tensor", doc=str(output.symbol.type)) for output in program.outputs
        )
        items.append(RecordPlan(f"{self.env.name}Constants", (doc,), fields))
        planned = self.planned(program, "What follows from constant tables alone.")
        items.append(planned.plan)
        return planned.call

    def planned(self, program: Program | None, summary: str, returns: Iterable[str] = ()) -> Planned:
        """A function of the environment, documented."""
        assert program is not None
        return plan_function(program, summary, self._annotations, self._describe, tuple(returns))

    def declared(self, program: Program, doc: str) -> FunctionPlan:
        """A function that the schema declares."""
        return plan_function(program, doc, self._annotations).plan

    def derived(self, program: Program | None, what: str, items: list[Item]) -> Planned | None:
        """The function of what the records give, for any leading dimensions, also over time; added to `items`."""
        if program is None:
            return None
        entries = {entry.key: entry for entry in (*self.env.reward, *self.env.observation)}
        made = [entries[output.key] for output in program.outputs if output.key is not None]
        if program.record is not None:
            fields = tuple(Field(entry.name, annotation(entry.type), doc=entry.doc) for entry in made)
            items.append(RecordPlan(program.record, (f"What `{program.name}` returns.",), fields))
        returns = items_doc(
            f"{entry.name + ': ' if program.record else ''}{entry_doc(entry)}" for entry in made
        )
        of = "step" if what == "reward" else "state"
        planned = self.planned(program, f"The {what} of a {of}, for any leading dimensions.", returns)
        items.append(planned.plan)
        return planned

    def picture(self, program: Program | None, items: list[Item]) -> Picture | None:
        """What is drawn of a state; the function of its numbers is added to `items`."""
        if self.env.render is None:
            return None
        name = f"{snake(self.env.name)}_picture"
        items.append(picture_function(name, self.env.render, None if program is None else program.record))
        if program is None:
            return Picture(self.env.render, name, None)
        assert program.record is not None
        fields = tuple(Field(output.name, annotation(output.symbol.type)) for output in program.outputs)
        record = RecordPlan(program.record, (f"What `{program.name}` returns.",), fields)
        planned = self.planned(program, "The numbers of the picture of a state, for any leading dimensions.")
        items[-1:-1] = [record, planned.plan]
        return Picture(self.env.render, name, planned.call)

    def _describe(self, one: Input) -> str:
        key, later = one.symbol.key, one.symbol.time == "next"
        field = next((field for field in self.next if field.key == key), None)
        if field is None:
            return entry_doc(next(entry for entry in self.env.action if entry.key == key))
        return f"as in `{self.env.name}Next`, after the step." if later else f"as in `{self.env.name}Root`."


def _computed(parts: Parts) -> Iterable[Input]:
    """The fields of the record of what is computed once, as inputs."""
    given = {one.symbol: one for program in parts.programs for one in program.inputs if one.group == GROUP}
    return given.values()
