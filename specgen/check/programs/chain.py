"""A chain as a component: the environment's functions are called, and each transform is bound to the keys it meets."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.chains.model import CheckedChain
from specgen.check.chains.writes import PRIVATE
from specgen.check.model import Entry, snake
from specgen.check.names import INVERSE
from specgen.check.programs.body import Body
from specgen.check.programs.chain_around import apply_around
from specgen.check.programs.chain_skips import stand_still
from specgen.check.programs.chain_start import begin_with_environment, begin_with_gymnasium
from specgen.check.programs.chain_state import ChainCell, ChainState, EnvPieces, Moment
from specgen.check.programs.chain_transforms import apply_transform
from specgen.check.programs.env import NOT_DONE
from specgen.expr import Symbol
from specgen.expr.symbols import Key
from specgen.program.cut import cut
from specgen.program.names import underscored
from specgen.program.program import Call, Cell, Component, Input, Output, Program, Statement
from specgen.program.walk import reads, targets
from specgen.values import replace

_OF_ENV = "e0"
"""The place of what the environment itself has, in private keys."""


class ChainPrograms:
    """The programs of a chain.

    Attributes:
        cells: the fields of its records, in order.
        derived: the entries that follow from the records: observations, and what transforms make of them.
        observes_unchanged: whether all of these are as the environment gives them.
    """

    def __init__(self, chain: CheckedChain, env: EnvPieces) -> None:
        self.chain = chain
        self.env = env
        self.prefix = snake(chain.name)
        state = self._state = ChainState(chain, env)
        if env.component is None:
            begin_with_gymnasium(state)
        else:
            begin_with_environment(state, env.component)
        there = {one.entry.key for one in state.cells}
        for entry in chain.entries.values():
            if entry.role == "done" and entry.key not in there:
                state.add_flag(entry.key)
        for instance in chain.instances:
            (apply_transform if instance.transform.around is None else apply_around)(state, instance)
        stand_still(state, chain.entries)
        self._left: set[Symbol] = set()
        self.cells = self._written = _closed(state)
        visible = {one.cell.key for one in self.cells if not one.cell.private}
        self.derived = tuple(
            entry
            for entry in chain.entries.values()
            if entry.role in ("observation", "state") and entry.key not in visible
        )
        now = self._state.views["now"]
        self.cells = self._written = self._with_what_steps_read()
        self.cells = self._read_or_shown()
        self.observes_unchanged = all(now[entry.dotted] in self._state.observed for entry in self.derived)

    def _with_what_steps_read(self) -> tuple[ChainCell, ...]:
        """The fields, where steps read what the environment observed under keys of its own.

        A transform shows something else under its key, or nothing: what no step reads is left out of what steps are given.
        """
        hidden = [one for one in self._written if _is_hidden_observation(one)]
        if not hidden:
            return self._written
        needed = _needed(self.component().phases["step"], self._state.views["next"].values())
        self._left.update(one.cell.now for one in hidden if one.cell.now not in needed)
        return tuple(
            replace(one, cell=replace(one.cell, key=_private_key(one.entry, _OF_ENV)))
            if _is_hidden_observation(one) and one.cell.now in needed
            else one
            for one in self._written
        )

    def _read_or_shown(self) -> tuple[ChainCell, ...]:
        """The fields without those that nothing shows or reads; a declared environment's state stays whole."""
        phases = self.component().phases
        programs = (phases["step"], phases["observe"])
        read = {one.symbol for program in programs for one in cut(program, program.outputs).inputs}
        declared = self.env.component is not None
        return tuple(
            one
            for one in self.cells
            if not one.cell.private or one.cell.now in read or (declared and one.position is None)
        )

    def component(self) -> Component:
        """The chain as a component."""
        cells = [one.cell for one in self.cells]
        bodies = [self._state.bodies[moment].statements for moment in ("now", "next")]
        read = {symbol for body in bodies for one in body for symbol in reads(one)}
        read |= {cell.now for cell in cells}  # what nothing else has is no value to take rows and device from
        inputs = [
            Input(one.cell.now, "flag" if one.entry.role == "done" else "state")
            for one in self._written
            if one.cell.now in read
        ]
        actions = [Input(symbol, "action") for symbol in self._state.actions.values()]
        actions += [Input(symbol, "written") for symbol in self._state.written.values()]
        fixed = self._state.fixed
        reset, now, step = (self._state.bodies[moment] for moment in ("reset", "now", "next"))
        # Gymnasium's reset is not the function's to call, so the function is given what it returned.
        named = {one.cell.init: one.cell.init for one in self._written if one.cell.init is not None}
        given = [Input(named.get(symbol, symbol), "given") for symbol in self._state.begun]
        after = self._state.views["next"]
        rewards = [
            Output(entry.name, after[entry.dotted], "reward", entry.key)
            for entry in self.chain.entries.values()
            if entry.role == "reward"
        ]
        inits = [Output(cell.name, cell.init, "cell", cell.key) for cell in cells if cell.init is not None]
        nexts = [Output(cell.name, cell.next, "cell", cell.key) for cell in cells]
        shown = [
            Output(entry.name, self._state.views["now"][entry.dotted], "observation", entry.key)
            for entry in self.derived
        ]
        given_to_step = [one for one in inputs if one.symbol not in self._left]
        several = f"{self.chain.name}Observation" if len(shown) > 1 else None
        programs = {
            "reset": self._program(reset, (*fixed, NOT_DONE, *given), inits, "Root"),
            "step": self._program(step, (*fixed, *given_to_step, *actions), [*nexts, *rewards], "Next"),
            "observe": replace(self._program(now, (*fixed, *inputs), shown, ""), record=several),
        }
        if self._state.inverse is not None:
            actions = [one for one in actions if one.kind == "action"]
            sent = [
                Output(entry.name, self._state.sent[entry.dotted], "value", entry.key)
                for entry in self.chain.env.value.action
            ]
            # what it does not read tells neither rows nor a device
            read = {symbol for one in self._state.inverse.statements for symbol in reads(one)}
            known = tuple(one for one in fixed if one.symbol in read)
            whole = self._program(self._state.inverse, (*known, *actions), sent, "")
            programs[INVERSE] = replace(whole, record=None)
        return Component(self.chain.name, programs, tuple(cells))

    def entries_after_step(self) -> Program | None:
        """What stands under `next` after a step, as one program; None where what is carried has keys of its own."""
        rewards = (entry for entry in self.chain.entries.values() if entry.role == "reward")
        return self._entries_after("step", "next", rewards)

    def entries_after_reset(self) -> Program | None:
        """What stands at the root after a reset, likewise."""
        return self._entries_after("reset", "reset", ())

    def _entries_after(self, phase: str, moment: Moment, rewards: Iterable[Entry]) -> Program | None:
        seen, cells = self._state.views[moment], {one.cell.key for one in self.cells}
        # In the order in which a class lists them: what follows from the records, the records, rewards.
        shown = {entry.key: entry for entry in self.derived}
        shown |= {key: entry for entry in self.chain.entries.values() if (key := entry.key) in cells}
        shown |= {entry.key: entry for entry in rewards}
        if any(PRIVATE in (one.cell.key or ()) for one in self.cells) or not all(
            entry.dotted in seen for entry in shown.values()
        ):
            return None
        outputs = [Output(entry.name, seen[entry.dotted], "value", key) for key, entry in shown.items()]
        whole = self.component().phases[phase]
        return cut(replace(whole, name=f"{self.prefix}_{phase}_entries", record=None), outputs)

    def _program(self, body: Body, inputs: tuple[Input, ...], outputs: list[Output], record: str) -> Program:
        phase = body.path.rpartition(".")[2]
        given = self._state.given if phase == "step" else []
        # A step may read what follows from the records before it.
        before = self._state.bodies["now"].statements if phase == "step" else []
        statements = _without([*before, *body.statements], self._left if phase == "step" else set())
        return Program(
            f"{self.prefix}_{phase}",
            (*inputs, *body.draws, *given),
            statements,
            tuple(outputs),
            f"{self.chain.name}{record}",
        )


def _needed(program: Program, others: Iterable[Symbol]) -> set[Symbol]:
    """What the outputs of a program, other values, and all that it learns are computed of."""
    needed = {*others, *(output.symbol for output in program.outputs)}
    for statement in reversed(program.body):
        learns = isinstance(statement, Call) and statement.callee.effect == "writes_buffer"
        if learns or not needed.isdisjoint(targets(statement)):
            needed.update(reads(statement))
    return needed


def _without(statements: Iterable[Statement], left: Iterable[Symbol]) -> tuple[Statement, ...]:
    """The statements without those that are computed of some values."""
    gone, kept = set(left), list[Statement]()
    for statement in statements:
        if gone.isdisjoint(reads(statement)):
            kept.append(statement)
        else:
            gone.update(targets(statement))
    return tuple(kept)


def _is_hidden_observation(one: ChainCell) -> bool:
    """Whether a field is what the environment observed, and a transform shows something else, or nothing, under its key."""
    return one.cell.private and one.position is None and one.cell.key == one.entry.key


def _private_key(entry: Entry, place: str) -> Key:
    """Where records carry a value that is not shown under its own key; `place` says whose it is."""
    return (*entry.key[:-1], PRIVATE, place, entry.key[-1])


def _closed(state: ChainState) -> tuple[ChainCell, ...]:
    """The fields of the records at the end: flags as they are then, values that are shown otherwise apart."""
    return tuple(_closed_cell(state, one) for one in state.cells)


def _closed_cell(state: ChainState, one: ChainCell) -> ChainCell:
    cell, entry = one.cell, one.entry
    name = entry.dotted
    now, after = state.views["now"], state.views["next"]
    if entry.role == "done":
        return replace(one, cell=replace(cell, next=state.after(one)))
    if one.hidden:
        return replace(one, cell=_private(cell, _unused(state.chain, _hidden_name(one)), entry.key))
    if one.position is not None:
        if (now.get(name), after.get(name)) == (cell.now, cell.next):
            return one
        hidden, place = f"carry_{one.position}_{cell.name}", f"t{one.position}"
    elif now.get(name) != cell.now:
        # The dynamics go on from the environment's own value, whatever a transform shows in its place.
        hidden, place = f"raw_{cell.name}", _OF_ENV
    else:
        return one
    kept = one.position is not None or entry.role == "state"
    key = _private_key(entry, place) if kept else entry.key
    return replace(one, cell=_private(cell, _unused(state.chain, hidden), key))


def _hidden_name(one: ChainCell) -> str:
    """What the value of a hidden output is called in Python."""
    *above, _, place, last = one.entry.key
    return "_".join(("carry", place.removeprefix("t"), *above, last))


def _unused(chain: CheckedChain, wanted: str) -> str:
    """A Python name for a value that has no key of its own: no key of the chain is called so."""
    taken = {entry.name for entry in (*chain.entries.values(), *chain.actions)}
    taken |= {entry.name for entry in chain.env.value.entries}
    return underscored(wanted, taken)


def _private(cell: Cell, name: str, key: Key) -> Cell:
    """The cell under another name and key, as another value is shown under its own."""
    now = replace(cell.now, name=name)
    init = cell.init and replace(cell.init, name=name)
    return replace(cell, name=name, now=now, init=init, key=key, private=True)
