"""A checked chain as one environment: the environment's functions, and its transforms inlined around them."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.chains.model import CheckedChain
from specgen.check.chains.writes import PRIVATE
from specgen.check.model import Checked, CheckedEnv, Entry, dotted
from specgen.check.programs.chain import ChainPrograms
from specgen.check.programs.chain_state import ChainCell
from specgen.check.programs.chain_transforms import tables
from specgen.code import named, using
from specgen.expr.symbols import Key
from specgen.plan.chains.chain_class import chain_class
from specgen.plan.chains.learned import learned_record
from specgen.plan.chains.lift import plan_lift
from specgen.plan.chains.row import RowPlan, plan_rows
from specgen.plan.data import annotation, data_plan
from specgen.plan.envs.env import consts_record, params_record
from specgen.plan.envs.python_env import dynamics_type
from specgen.plan.functions import Planned, plan_function
from specgen.plan.interface import (
    FLAG_DOCS,
    Call,
    EnvInterface,
    Extra,
    Passed,
    RecordField,
    called_by_chains,
    entry_field,
)
from specgen.plan.items import Item
from specgen.plan.model import Field, RecordPlan
from specgen.plan.records import step_records
from specgen.plan.spec_text import spec_code
from specgen.plan.transforms.networks import network_docs, networks_record
from specgen.plan.transforms.python import objects_record
from specgen.program.hot_cold import Parts, split
from specgen.program.program import Input, InputKind, Program
from specgen.values import replace


def plan_chain(checked: Checked[CheckedChain], env: EnvInterface) -> list[Item]:
    """Plan a chain over an environment whose own module is planned already."""
    return _Planner(checked.value, env).run()


class _Planner:
    def __init__(self, chain: CheckedChain, env: EnvInterface) -> None:
        self.chain = chain
        self.env = env
        self.programs = ChainPrograms(chain, env.pieces)
        self.component = self.programs.component()
        self.parts: Parts = split(self.component)
        programs = (self.parts.advance, self.parts.observe)
        read = {one.symbol for program in programs if program is not None for one in program.inputs}
        self.root = tuple(self._field(one, one.cell.now in read) for one in self.programs.cells)
        self._arguments = {
            **{one.cell.now: Passed("root", one.cell.name) for one in self.programs.cells},
            **{one.cell.next: Passed("next", one.cell.name) for one in self.programs.cells},
        }
        self._raw = {output.name for output in self.parts.raw}

    def run(self) -> list[Item]:
        chain, parts, env = self.chain, self.parts, self.env
        rewards = {entry.key: entry for entry in chain.entries.values() if entry.role == "reward"}
        promoted = [_next_field(rewards[output.key or ()], output.name) for output in parts.promoted]
        given = {entry.key: entry for entry in (*env.env.reward, *env.env.observation)}
        raw = [_next_field(given[output.key or ()], output.name) for output in parts.raw]
        next_fields = (*self.root, *promoted, *raw)
        reset = self._planned(parts.reset, "A fresh episode in every row of the batch.")
        advance = self._planned(parts.advance, "One step: all that the step after it depends on.")
        as_env = self._as_env()
        items: list[Item] = [params_record(as_env)] if chain.params else []
        if as_env.consts:
            items.append(consts_record(as_env))
        if (learned := learned_record(chain)) is not None:
            items.append(learned)
        items += [*networks_record(chain), *objects_record(chain)]
        items += step_records(
            chain.name,
            self.root,
            next_fields,
            "What a step reads from one time to the next; observations follow from it.",
            "What a step computes for the step after it",
        )
        items += [reset.plan, advance.plan]
        inverse = None
        if parts.inverse is not None:
            inverse = self._planned(parts.inverse, "What Gymnasium is given, of what the policy wrote.")
            items.insert(-1, inverse.plan)
        reward = self._derived(parts.reward, "reward", rewards.values(), items)
        if self._shows_what_env_does():
            observe = env.observe and called_by_chains(env.observe, params=bool(chain.params))
        else:
            observe = self._derived(parts.observe, "observation", self.programs.derived, items)
        interface = EnvInterface(
            env=replace(as_env, reward=()),
            root=self.root,
            next=next_fields,
            reset=reset.call,
            advance=advance.call,
            reward=reward,
            observe=observe,
            inverse=None if inverse is None else inverse.call,
            observations=self.programs.derived,
            rewards=tuple(rewards.values()),
            params=(*env.params, *chain.params),
            own_params=bool(chain.params),
            networks=tuple(network_docs(chain)),
            written=tuple(self._inputs("written")),
            extra={
                field.key: self._extra(one)
                for field, one in zip(self.root, self.programs.cells, strict=True)
                if field.visible and not field.flag and self._is_extra(one)
            },
        )
        drawn = parts.inverse is not None and any(one.kind == "draw" for one in parts.inverse.inputs)
        drawn = drawn or any(one.group == "draws" for one in parts.advance.inputs)
        single = len(env.env.observation) == 1
        one_by_one = env.env.gymnasium is not None and single and not self._steps_gymnasium
        # numbers for actions are drawn step by step, and what a policy writes is known at each step only
        known_ahead = not (drawn or self._inputs("written") or self._inputs("action"))
        lifted = one_by_one and known_ahead and learned is None
        methods = plan_lift(self.component, parts.advance) if lifted else ()
        rows = RowPlan()
        if one_by_one:
            rows = plan_rows(self.programs.entries_after_reset(), self.programs.entries_after_step())
        items.append(chain_class(interface, chain, env, methods, rows, self._returned(parts)))
        items += data_plan(interface)
        return items

    def _inputs(self, kind: InputKind) -> list[Key]:
        """The keys of what the step function is given of a kind."""
        return [one.symbol.key or () for one in self.parts.advance.inputs if one.kind == kind]

    @property
    def _steps_gymnasium(self) -> bool:
        """Whether the step function takes Gymnasium's steps, in place of being given what one returned."""
        return any(one.group == "dynamics" for one in self.parts.advance.inputs)

    def _returned(self, parts: Parts) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        """What the functions call Gymnasium's observations, of a reset and of a step: `_` for what they do not read."""

        def names(program: Program | None) -> tuple[str, ...]:
            given = () if program is None else (one.symbol for one in program.inputs if one.kind == "given")
            found = {symbol.key: symbol.name for symbol in given}
            return tuple(found.get(entry.key, "_") for entry in self.env.env.observation)

        return names(parts.reset), None if self._steps_gymnasium else names(parts.advance)

    def _shows_what_env_does(self) -> bool:
        """Whether the environment's own function gives the observations: no transform shows another value."""
        if self.env.env.gymnasium is not None:
            return False
        if any(one.cell.private and one.position is None for one in self.programs.cells):
            return False  # a field of that name has what a transform shows; the environment's value has another one
        own = set() if self.env.observe is None else set(self.env.observe.returns)
        return {entry.key for entry in self.programs.derived} == own and self.programs.observes_unchanged

    def _as_env(self) -> CheckedEnv:
        """The chain as an environment: what the class planner reads of it."""
        base = self.env.env
        kept = {key for key, entry in self.chain.entries.items() if entry.role == "state"}
        return replace(
            base,
            state=tuple(entry for entry in base.state if entry.dotted in kept),
            name=self.chain.name,
            module=self.chain.module,
            doc=self.chain.doc or f"`{base.name}` with transforms.",
            params=(*base.params, *self.chain.params),
            consts=tuple(tables(self.chain.instances)),
            observation=(),
            action=self.chain.actions,
            masks=self.chain.masks,
        )

    # fields ----------------------------------------------------------------------------------------

    def _field(self, one: ChainCell, read: bool) -> RecordField:
        """A field of the records; a carry that is shown otherwise has an entry of its own where anything reads it."""
        cell, entry = one.cell, one.entry
        flag = entry.role == "done"
        of_env = flag and entry.key[:-1] in self.env.env.done
        doc = (FLAG_DOCS.get(entry.key[-1]) if of_env else None) or entry.doc
        visible, key = True, cell.key or entry.key
        if cell.private and one.position is None:
            visible = PRIVATE in key
            doc = "as the environment has it" if visible else entry.doc
        elif cell.private and not read:
            visible, key = False, entry.key
        return RecordField(cell.name, entry.dotted, key, entry.type, doc, visible=visible, flag=flag)

    def _is_extra(self, one: ChainCell) -> bool:
        """Whether a field needs a spec of its own: it is neither state nor a done flag."""
        return one.cell.private or one.position is not None or one.entry.role != "state"

    def _extra(self, one: ChainCell) -> Extra:
        carried = one.carried or one.cell.private
        col = one.entry.type.col and one.position is not None
        return Extra(spec_code(one.entry.spec, col=col), carried)

    # functions -------------------------------------------------------------------------------------

    def _planned(self, program: Program | None, summary: str, *, of_records: bool = False) -> Planned:
        assert program is not None
        env = self.env.env
        annotations = {
            "params": named(f"{self.chain.name if self.chain.params else env.name}Params"),
            "draws": using("Draws", "Draws"),
            "env_params": named(f"{env.name}Params"),
            "env_consts": named(f"{env.name}Consts"),
            "constants": named(f"{env.name}Constants"),
            "consts": named(f"{self.chain.name}Consts"),
            "learned": named(f"{self.chain.name}Learned"),
            "networks": named(f"{self.chain.name}Networks"),
            "objects": named(f"{self.chain.name}Objects"),
        }
        if env.python is not None:
            annotations["dynamics"] = dynamics_type(env)
        elif env.gymnasium is not None:
            annotations["dynamics"] = using("GymDynamics", "GymDynamics")
        passed = self._of_records if of_records else self._passed
        # Gymnasium's environments are stepped one by one, and never mapped.
        return plan_function(program, summary, annotations, passed=passed, reuse=env.gymnasium is not None)

    def _passed(self, one: Input) -> Passed | None:
        """What a function is passed that makes the records: what was returned is at hand."""
        return None if one.kind == "given" else self._of_records(one)

    def _of_records(self, one: Input) -> Passed | None:
        """What a function is passed that follows from the records."""
        if one.symbol.name in self._raw:
            return Passed("next", one.symbol.name)
        if one.kind == "written":
            return Passed("written", dotted(one.symbol.key or ()))
        return self._arguments.get(one.symbol)

    def _derived(
        self, program: Program | None, what: str, entries: Iterable[Entry], items: list[Item]
    ) -> Call | None:
        """The function of what the records give, added to `items`."""
        if program is None:
            return None
        of = "step" if what == "reward" else "state"
        planned = self._planned(
            program, f"The {what} of a {of}, for any leading dimensions.", of_records=True
        )
        if program.record is not None:
            told = {entry.key: entry for entry in entries}
            fields = tuple(
                Field(output.name, annotation(told[output.key].type))
                for output in program.outputs
                if output.key is not None
            )
            items.append(RecordPlan(program.record, (f"What `{program.name}` returns.",), fields))
        items.append(planned.plan)
        return planned.call


def _next_field(entry: Entry, name: str) -> RecordField:
    """An entry that a step alone has, in the Next record; under another name it is what the environment gave."""
    return replace(entry_field(entry), name=name, visible=name == entry.name)
