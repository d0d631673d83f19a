"""A chain as a component: the environment's functions are called, and each transform is bound to the keys it meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from specgen.check.chain_model import ChainKey, CheckedChain, Instance, Row
from specgen.check.chain_types import interval_of, shape_of
from specgen.check.model import DONE_FLAGS, ENDING_FLAGS, Constant, Entry, Key, dotted, identifier, snake
from specgen.check.programs.body import Body
from specgen.check.programs.env import NOT_DONE, either, known
from specgen.check.transform_model import Phase
from specgen.expr import ANYTHING, Symbol, Type, Typed, full
from specgen.program.hot_cold import Parts
from specgen.program.program import Call, Callee, Cell, Component, Input, Output, Program
from specgen.program.walk import read, store

Moment = Literal["reset", "now", "next"]
"""At a reset, at the root of a step, and after it: each key has a value at each, which transforms replace in turn."""

PRIVATE = "_carry"
"""The group of what a later transform shows another value of; the tensordict keeps it below this key."""


@dataclass(frozen=True)
class ChainCell:
    """A field of a chain's records.

    Attributes:
        cell: the value that is carried; its `name` is the Python name of the field.
        entry: what it is; for a private one, the entry that is shown in its place.
        position: the transform that carries it; None for what is the environment's, and for done flags.
        carried: whether the transform says that the next step needs it.
    """

    cell: Cell
    entry: ChainKey
    position: int | None = None
    carried: bool = False


@dataclass(frozen=True)
class EnvPieces:
    """An environment as chains call it: its cells and its functions; for Gymnasium there are none."""

    component: Component | None = None
    parts: Parts | None = None
    fixed: tuple[Input, ...] = ()
    actions: Mapping[str, Symbol] = field(default_factory=dict)


class ChainPrograms:
    """The programs of a chain.

    Attributes:
        cells: the fields of its records, in order.
        constants: the parameters of transforms that are tensors, as inputs, by name; those that are read.
        derived: the entries that follow from the records: observations, and what transforms make of them.
        observes_unchanged: whether all of these are as the environment gives them.
    """

    def __init__(self, chain: CheckedChain, env: EnvPieces) -> None:
        self.chain = chain
        self.env = env
        self.path = f"chains.{chain.name}"
        self.prefix = snake(chain.name)
        self.constants: dict[str, Input] = {}
        self.cells: list[ChainCell] = []
        self._views: dict[Moment, dict[str, Symbol]] = {"reset": {}, "now": {}, "next": {}}
        self._bodies: dict[Moment, Body] = {
            moment: Body(
                f"{self.path}.{'observe' if moment == 'now' else 'step' if moment == 'next' else moment}"
            )
            for moment in ("reset", "now", "next")
        }
        self._observed: set[Symbol] = set()
        self._given: list[Input] = []
        self._names = {entry.name for entry in (*chain.entries.values(), *chain.actions)}
        self._names |= {entry.name for entry in chain.env.value.entries}
        self._outer = {
            a.dotted: Symbol(f"{self.path}.action.{a.dotted}", a.name, a.type, a.spec.interval, "now", a.key)
            for a in chain.actions
        }
        if env.component is None:
            self._gymnasium()
        else:
            self._environment(env.component)
        there = {one.entry.key for one in self.cells}
        for entry in chain.entries.values():
            if entry.group == "done" and entry.key not in there:
                self._add_flag(entry.key)
        for instance in chain.instances:
            self._apply(instance)
        self._close()
        visible = {one.cell.key for one in self.cells if not one.cell.private}
        self.derived = tuple(
            entry
            for entry in chain.entries.values()
            if entry.group in ("observation", "state") and entry.key not in visible
        )
        now = self._views["now"]
        self.observes_unchanged = all(now[entry.dotted] in self._observed for entry in self.derived)

    @property
    def tables(self) -> Iterator[Constant]:
        """The parameters of transforms that are tensors, as constant tables of the chain."""
        for instance in self.chain.instances:
            for param in instance.transform.params:
                value = instance.params[param.name]
                if param.kind == "tensor" and value is not None:
                    type_ = Type("float32", shape_of(value), "const")
                    doc = f"`{param.name}` of {instance.transform.name}"
                    yield Constant(_constant(instance, param.name), type_, value, doc)

    def component(self) -> Component:
        """The chain as a component."""
        cells = [one.cell for one in self.cells]
        inputs = [
            Input(cell.now, "flag" if one.entry.group == "done" else "state")
            for cell, one in zip(cells, self.cells, strict=True)
        ]
        actions = [Input(symbol, "action") for symbol in self._outer.values()]
        fixed = (
            *(replace(one, group="env_consts") if one.group == "consts" else one for one in self.env.fixed),
            *self.constants.values(),
        )
        reset, now, step = (self._bodies[moment] for moment in ("reset", "now", "next"))
        # Gymnasium's reset is not the function's to call, so the function is given what it returned.
        raw = (
            []
            if self.env.component
            else [one.cell.init for one in self.cells if one.position is None and one.entry.group != "done"]
        )
        given = [Input(symbol, "given") for symbol in raw if symbol is not None]
        after = self._views["next"]
        rewards = [
            Output(entry.name, after[entry.dotted], "reward", entry.key)
            for entry in self.chain.entries.values()
            if entry.group == "reward"
        ]
        inits = [Output(cell.name, cell.init, "cell", cell.key) for cell in cells if cell.init is not None]
        nexts = [Output(cell.name, cell.next, "cell", cell.key) for cell in cells]
        shown = [
            Output(entry.name, self._views["now"][entry.dotted], "observation", entry.key)
            for entry in self.derived
        ]
        several = f"{self.chain.name}Observation" if len(shown) > 1 else None
        programs = {
            "reset": self._program(reset, (*fixed, NOT_DONE, *given), inits, "Root"),
            "step": self._program(step, (*fixed, *inputs, *actions), [*nexts, *rewards], "Next"),
            "observe": replace(self._program(now, (*fixed, *inputs), shown, ""), record=several),
        }
        return Component(self.chain.name, programs, tuple(cells))

    def _program(self, body: Body, inputs: tuple[Input, ...], outputs: list[Output], record: str) -> Program:
        phase = body.path.rpartition(".")[2]
        given = self._given if phase == "step" else []
        # A step may read what follows from the records before it.
        before = self._bodies["now"].statements if phase == "step" else []
        return Program(
            f"{self.prefix}_{phase}",
            (*inputs, *body.draws, *given),
            (*before, *body.statements),
            tuple(outputs),
            f"{self.chain.name}{record}",
        )

    # the environment -----------------------------------------------------------------------------

    def _environment(self, env: Component) -> None:
        """Begin with calls of the environment's functions."""
        parts = self.env.parts
        assert parts is not None
        assert parts.reset is not None
        reset, step = self._bodies["reset"], self._bodies["next"]
        current = {cell.now: replace(cell.now, path=f"{self.path}.cells.{cell.name}") for cell in env.cells}
        fresh = self._call(reset, parts.reset, {}, "now")
        actions = self._inverse(step)
        inner = {symbol: actions[name] for name, symbol in self.env.actions.items()}
        after = self._call(step, parts.advance, {**current, **inner}, "next")
        for cell in env.cells:
            name = identifier(cell.name)
            now = current[cell.now]
            self._see(cell.name, reset=fresh[name], now=now, next=after[name])
            made = Cell(name, now, fresh[name], after[name], cell.key)
            self.cells.append(ChainCell(made, self._entry(cell)))
        for output in parts.promoted:
            self._see(dotted(output.key or ()), next=after[output.name])
        if parts.reward is not None:
            # What a step never changes is read from before it.
            seen = {cell.next: after[identifier(cell.name)] for cell in env.cells} | current | inner
            for name, symbol in self._call(step, parts.reward, seen, "next").items():
                self._see(dotted(symbol.key or (name,)), next=symbol)
        if parts.observe is not None:
            for moment, body in self._bodies.items():
                seen = {cell.now: self._views[moment][cell.name] for cell in env.cells}
                time: Literal["now", "next"] = "next" if moment == "next" else "now"
                for name, symbol in self._call(body, parts.observe, seen, time).items():
                    self._views[moment][dotted(symbol.key or (name,))] = symbol
                    self._observed.add(symbol)

    def _entry(self, cell: Cell) -> ChainKey:
        """The entry of the environment that a cell of its holds."""
        env = self.chain.env.value
        for entry in (*env.state, *env.observation):
            if entry.key == cell.key:
                group: Literal["state", "observation"] = "state" if entry.role == "state" else "observation"
                return ChainKey(entry.key, group, entry.spec, entry.type, entry.doc)
        return self.chain.entries[cell.name]

    def _call(
        self, body: Body, program: Program, seen: Mapping[Symbol, Symbol], time: Literal["now", "next"]
    ) -> dict[str, Symbol]:
        """Add a call of one of the environment's functions; its draws become the chain's.

        Returns:
            What it returns, by name.
        """
        made: dict[str, Symbol] = {}
        for output in program.outputs:
            symbol = output.symbol
            flag = output.key is not None and output.key[-1] in DONE_FLAGS
            later = time == "next" and not flag and output.role in ("cell", "observation")
            wish = f"next_{identifier(output.name)}" if later else identifier(output.name)
            made[output.name] = body.symbol(
                f"{program.name}.{output.name}",
                symbol.type,
                symbol.interval,
                wish=wish,
                key=output.key,
                time=time,
            )
        body.draws += [one for one in program.inputs if one.kind == "draw" and one not in body.draws]
        args = tuple(read(seen.get(one.symbol, one.symbol)) for one in program.inputs)
        fields = tuple(made) if program.record is not None else ()
        once = any(output.role == "cell" for output in program.outputs)
        callee = Callee(program.name, program, "steps" if once else "pure")
        called = "base" if once else "observed" if program.outputs[0].role == "observation" else "rewards"
        origin = f"envs.{self.chain.env.value.name}"
        body.statements.append(
            Call(tuple(made.values()), callee, args, fields=fields, called=called, origin=origin)
        )
        return made

    def _gymnasium(self) -> None:
        """Begin with what Gymnasium returned."""
        env = self.chain.env.value
        for entry in env.observation:
            now = self._of_gymnasium(entry, "cells", entry.name, "now")
            first = self._of_gymnasium(entry, "gymnasium.reset", entry.name, "now")
            after = self._of_gymnasium(entry, "gymnasium.step", f"next_{entry.name}", "next")
            self._given.append(Input(after, "given"))
            self._see(entry.dotted, reset=first, now=now, next=after)
            shown = ChainKey(entry.key, "observation", entry.spec, entry.type, entry.doc)
            self.cells.append(ChainCell(Cell(entry.name, now, first, after, entry.key), shown))
        for entry in env.reward:
            symbol = self._of_gymnasium(entry, "gymnasium.step", entry.name, "next")
            self._given.append(Input(symbol, "given"))
            self._see(entry.dotted, next=symbol)
        for flag in DONE_FLAGS:
            after = self._flag((flag,), "gymnasium.step", "next")
            if flag in ENDING_FLAGS:
                self._given.append(Input(after, "given"))
            self._add_flag((flag,))
            self._views["next"][flag] = after
        step = self._bodies["next"]
        ending = [self._views["next"][flag] for flag in ENDING_FLAGS]
        step.add(self._views["next"]["done"], either(ending[0], ending[1]))

    def _of_gymnasium(self, entry: Entry, place: str, name: str, time: Literal["now", "next"]) -> Symbol:
        values = ANYTHING if entry.role == "reward" else entry.spec.interval
        return Symbol(f"{self.path}.{place}.{entry.name}", name, entry.type, values, time, entry.key)

    # transforms ----------------------------------------------------------------------------------

    def _apply(self, instance: Instance) -> None:
        """Bind a transform to its keys: its statements, with the values that its position sees."""
        before = {moment: dict(view) for moment, view in self._views.items()}
        raised: list[ChainKey] = []
        carried: list[tuple[str, ChainKey, Symbol]] = []
        for index, row in enumerate(instance.rows):
            place = f"transforms[{instance.position}].{index}"
            first = {s.target for s in instance.statements("reset", row)}
            for output in instance.transform.outputs:
                entry = row.outputs.get(output.name)
                if entry is not None and output.name in first:
                    path = f"{self.path}.cells.{place}.{output.name}"
                    symbol = Symbol(path, entry.name, entry.type, entry.spec.interval, "now", entry.key)
                    carried.append((output.name, entry, symbol))
            cells = {name: symbol for name, entry, symbol in carried if row.outputs.get(name) is entry}
            self._run(instance, row, "reset", "reset", place, before, {})
            self._run(instance, row, "map", "reset", place, before, {})
            self._views["now"].update((row.outputs[name].dotted, symbol) for name, symbol in cells.items())
            self._run(instance, row, "map", "now", place, before, {})
            raised += self._run(instance, row, "step", "next", place, before, cells)
            raised += self._run(instance, row, "map", "next", place, before, {})
        if instance.derives_done:
            for flag in raised:
                self._raise(flag)
        for name, entry, symbol in carried:
            views = (self._views[moment][entry.dotted] for moment in ("reset", "next"))
            cell = Cell(entry.name, symbol, next(views), next(views), entry.key)
            output = instance.transform.output(name)
            self.cells.append(ChainCell(cell, entry, instance.position, output.carry))

    def _run(
        self,
        instance: Instance,
        row: Row,
        phase: Literal["reset", "step", "map"],
        moment: Moment,
        place: str,
        before: Mapping[Moment, Mapping[str, Symbol]],
        cells: Mapping[str, Symbol],
    ) -> list[ChainKey]:
        """Add the statements of a phase at a moment.

        Args:
            place: a name for the repetition.
            before: what each key was before the transform.
            cells: what `step` reads of its own outputs before the step.

        Returns:
            The done flags that it assigns.
        """
        body = self._bodies[moment]
        local = Body(f"{body.path}.{place}.{phase}")
        self._bind_parameters(local, instance)
        for name in (*row.inputs, *row.outputs):
            entry = row.outputs.get(name) or row.inputs[name]
            seen = (row.inputs.get(name) or entry).dotted
            if phase == "step":
                self._bind(local, row, phase, name, cells.get(name) or before["now"].get(seen))
                # A flag is as it is so far: another key of the same transform may have raised it.
                after = (self._views if entry.group == "done" else before)["next"].get(seen)
                raised = known(False) if after is None and entry.group == "done" else after
                self._bind(local, row, phase, f"next.{name}", raised)
            elif name in row.inputs:
                self._bind(local, row, phase, name, before[moment].get(seen))
        flags = []
        origin = f"{self.path}.transforms[{instance.position}]"
        for statement in instance.statements(phase, row):
            bare = statement.target.removeprefix("next.")
            made = row.outputs.get(bare)
            if made is None:
                local.assign(statement, origin=origin)
                continue
            if made.group == "reward" and moment != "next":
                continue
            wish = made.name if moment != "next" or made.group == "reward" else f"next_{made.name}"
            symbol = local.assign(
                statement,
                made.type,
                made.spec.interval,
                origin=origin,
                wish=wish,
                alias=f"{wish}_{bare}",
                key=made.key,
                time="next" if moment == "next" else "now",
            ).symbol
            assert symbol is not None
            self._views[moment][made.dotted] = symbol
            if moment == "next" and made.group == "done":
                flags.append(made)
        body.statements += local.statements
        body.draws += local.draws
        return flags

    def _bind(self, body: Body, row: Row, phase: Phase, name: str, value: Symbol | Typed | None) -> None:
        """Let a name of a transform stand for a value of its position."""
        symbol = row.symbols.get(f"{phase}.in.{name}")
        if symbol is not None and value is not None:
            body.bind(symbol, value)

    def _inverse(self, body: Body) -> dict[str, Symbol]:
        """Add the environment's actions from what the policy wrote, last transform first."""
        current = dict(self._outer)
        for instance in reversed(self.chain.instances):
            for index, row in enumerate(instance.inverse_rows):
                role, entry = next(iter(row.inputs.items()))
                place = f"transforms[{instance.position}].{index}.inverse"
                local = Body(f"{body.path}.{place}")
                self._bind_parameters(local, instance)
                for name, written in row.outputs.items():
                    self._bind(local, row, "inverse", name, current[written.dotted])
                for statement in instance.statements("inverse", row):
                    local.assign(
                        statement,
                        entry.type if statement.target == role else None,
                        origin=f"{self.path}.transforms[{instance.position}]",
                        wish=f"{entry.name}_{identifier(statement.target)}",
                    )
                body.statements += local.statements
                current[entry.dotted] = local.bound(role)
        return current

    def _bind_parameters(self, body: Body, instance: Instance) -> None:
        """Let the parameters of a transform that are tensors stand for constants of the chain."""
        for param in instance.transform.params:
            value = instance.params[param.name]
            if param.kind != "tensor" or value is None:
                continue
            name = _constant(instance, param.name)
            type_ = Type("float32", shape_of(value), "const")
            symbol = Symbol(f"{self.path}.consts.{name}", name, type_, interval_of(value))
            self.constants.setdefault(name, Input(symbol, "const", "consts"))
            body.bind(Symbol(f"{instance.path}.params.{param.name}", name, type_), symbol)

    # flags ---------------------------------------------------------------------------------------

    def _flag(self, key: Key, place: str, time: Literal["now", "next"]) -> Symbol:
        type_ = self.chain.entries[dotted(key)].type
        return Symbol(f"{self.path}.{place}.{dotted(key)}", "_".join(key), type_, full("bool"), time, key)

    def _add_flag(self, key: Key) -> None:
        """Add a done flag to the records; at a reset it is not raised."""
        first = self._flag(key, "reset", "now")
        value = read(NOT_DONE.symbol)
        if len(key) > 1:
            value = store(known(False), first.type)
        elif self.env.component is not None:
            value = Typed(
                "copy", first.type, first.interval, (value,)
            )  # the environment's reset returns the original
        self._bodies["reset"].add(first, value)
        now = self._flag(key, "cells", "now")
        self._see(dotted(key), reset=first, now=now)
        cell = Cell("_".join(key), now, first, first, key)
        self.cells.append(ChainCell(cell, self.chain.entries[dotted(key)]))

    def _raise(self, flag: ChainKey) -> None:
        """Raise what a raised flag raises: `done` beside it, and the flags of groups below with theirs."""
        body, view = self._bodies["next"], self._views["next"]
        raised = view[flag.dotted]
        for name in self._raised(flag.key[:-1], flag.key[-1]):
            entry = self.chain.entries[name]
            symbol = body.symbol(
                f"raised.{name}",
                entry.type,
                full("bool"),
                wish=f"next_{entry.name}",
                key=entry.key,
                time="next",
            )
            current = view.get(name)
            value: Typed = read(raised) if current is None else either(current, raised, entry.type)
            view[name] = body.add(symbol, store(value, entry.type) if current is None else value)

    def _raised(self, level: Key, flag: str) -> Iterator[str]:
        yield dotted((*level, "done"))
        for deeper in self.chain.env.value.done:
            if len(deeper) > len(level) and deeper[: len(level)] == level:
                if (name := dotted((*deeper, flag))) in self.chain.entries:
                    yield name
                yield dotted((*deeper, "done"))

    # records -------------------------------------------------------------------------------------

    def _see(
        self, name: str, *, reset: Symbol | None = None, now: Symbol | None = None, next: Symbol | None = None
    ) -> None:
        for moment, symbol in (("reset", reset), ("now", now), ("next", next)):
            if symbol is not None:
                self._views[moment][name] = symbol  # type: ignore[index]

    def _close(self) -> None:
        """Let every cell hold what it is at the end: flags as they are then, values that are shown otherwise apart."""
        now, after = self._views["now"], self._views["next"]
        for index, one in enumerate(self.cells):
            cell, entry = one.cell, one.entry
            name = entry.dotted
            if entry.group == "done":
                if name not in after:
                    symbol = self._flag(entry.key, "step.never", "next")
                    after[name] = self._bodies["next"].add(symbol, store(known(False), symbol.type))
                self.cells[index] = replace(one, cell=replace(cell, next=after[name]))
            elif one.position is not None:
                if now.get(name) != cell.now or after.get(name) != cell.next:
                    hidden = self._unused(f"carry_{one.position}_{cell.name}")
                    key = (*entry.key[:-1], PRIVATE, f"t{one.position}", entry.key[-1])
                    self.cells[index] = replace(one, cell=_private(cell, hidden, key))
            elif now[name] != cell.now:
                # The dynamics go on from the environment's own value, whatever a transform shows in its place.
                state = entry.group == "state"
                key = (*entry.key[:-1], PRIVATE, "e0", entry.key[-1]) if state else entry.key
                self.cells[index] = replace(one, cell=_private(cell, self._unused(f"raw_{cell.name}"), key))

    def _unused(self, wanted: str) -> str:
        """A Python name for a value that has no key of its own: no key of the chain is called so."""
        while wanted in self._names:
            wanted += "_"
        return wanted


def _constant(instance: Instance, param: str) -> str:
    """The field of the chain's constants that holds a parameter."""
    return f"{snake(instance.transform.name)}_{instance.position}_{param}"


def _private(cell: Cell, name: str, key: Key) -> Cell:
    """The cell under another name and key, as another value is shown under its own."""
    now = replace(cell.now, name=name)
    init = cell.init and replace(cell.init, name=name)
    return replace(cell, name=name, now=now, init=init, key=key, private=True)
