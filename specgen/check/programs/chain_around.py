"""Transforms in a chain that step the environment before them: its step becomes a loop, or stands still in some rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specgen.check.chain_around import repetitions
from specgen.check.chain_model import Instance, Row
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainCell, ChainState
from specgen.check.programs.chain_transforms import bind_parameters
from specgen.check.programs.env import either
from specgen.check.transform_around import NTH
from specgen.check.transform_model import Phase
from specgen.expr import Symbol, Type, Typed, full
from specgen.program.cut import cut
from specgen.program.fold import fold
from specgen.program.program import Assign, Carried, Input, Output, Program, Region, Statement
from specgen.program.stored import tidy
from specgen.program.walk import known, read, reads, rewritten, store, targets, where

_FLAG = Type("bool", (), col=True)
_NTH = Type("int64", (), "ctor")


def apply_around(state: ChainState, instance: Instance) -> None:
    """Repeat the step of the chain so far, or note the rows in which it stands still."""
    around = instance.transform.around
    assert around is not None
    if around.kind == "skip":
        state.skips += [_skipped(state, instance, index, row) for index, row in enumerate(instance.rows)]
    else:
        stand_still(state, instance.position)
        _Loop(state, instance).apply()


def stand_still(state: ChainState, position: int) -> None:
    """Keep every entry of the rows that the transforms before `position` leave out, with a reward of 0."""
    if not state.skips:
        return
    step = state.bodies["next"]
    rows, *others = state.skips
    state.skips = []
    for other in others:
        rows = step.add(step.symbol("skipped", _FLAG, full("bool")), either(rows, other, _FLAG))
    for index, one in enumerate(state.cells):
        after = _after(state, one)
        kept = step.add(_another(step, after, "kept"), store(where(rows, one.cell.now, after), after.type))
        _replace_after(state, index, kept)
    for name, symbol in _rewards(state, position).items():
        nothing = step.add(_another(step, symbol, "nothing"), store(known(0), symbol.type))
        value = store(where(rows, nothing, symbol), symbol.type)
        state.views["next"][name] = step.add(_another(step, symbol, "kept"), value)
    _observe_again(state, f"standing{len(step.statements)}")


def _skipped(state: ChainState, instance: Instance, index: int, row: Row) -> Symbol:
    """The rows that a transform leaves out, by what they were before."""
    step = state.bodies["next"]
    local = _bound(state, instance, row, "skip", index, {})
    value = _assigned(local, instance, row, "skip")["skip"]
    step.statements += local.statements
    origin = f"{state.path}.transforms[{instance.position}]"
    flag = step.symbol(f"skipped{instance.position}.{index}", _FLAG, full("bool"), wish="skipped")
    return step.add(flag, store(value, _FLAG), origin)


@dataclass
class _Loop:
    """The step of a chain so far as the body of a loop.

    Attributes:
        state: the chain.
        instance: the transform that repeats it.
        carried: what each repetition hands on.
        firsts: what stands before the loop.
        behind: what stands in the loop, behind the step.
    """

    state: ChainState
    instance: Instance
    carried: list[Carried] = field(default_factory=list)
    firsts: list[Statement] = field(default_factory=list)
    behind: list[Statement] = field(default_factory=list)

    def apply(self) -> None:
        """Put the step into the loop; what each key is afterwards is what the loop ends with."""
        state, step = self.state, self.state.bodies["next"]
        self.origin = f"{state.path}.transforms[{self.instance.position}]"
        self.index = Symbol(f"{self.origin}.{NTH}", NTH, _NTH, full("int64"))
        rewards = _rewards(state, self.instance.position)
        seen = {entry.dotted for row in self.instance.rows for entry in row.inputs.values()}
        wanted = {f"cell {index}": _after(state, one) for index, one in enumerate(state.cells)}
        wanted |= {
            name: symbol for name, symbol in state.views["next"].items() if name in seen | rewards.keys()
        }
        before, inside = step.statements[: state.acted], step.statements[state.acted :]
        program = self._step(
            [*_copied(state.bodies["now"].statements, {}, self.origin, "now")], inside, wanted
        )
        after = {output.name: output.symbol for output in program.outputs}
        self.read = {symbol for statement in program.body for symbol in reads(statement)}
        defined = {target for statement in program.body for target in targets(statement)}
        inner: dict[Symbol, Typed] = {}
        results: list[Symbol] = []
        for index, one in enumerate(state.cells):
            end = after[f"cell {index}"]
            if end not in defined:
                results.append(end)  # what the step never changes is not carried
                continue
            each, last = self._carry(one.cell.now, end, f"cell{index}")
            inner[one.cell.now] = read(each)
            results.append(last)
        rewarded = {name: self._carry_reward(name, after) for name in rewards}
        mask = self._mask(after)
        body = [*(rewritten(statement, inner.get) for statement in program.body), *self.behind]
        indexed = any(self.index in reads(statement) for statement in body)
        region = Region(
            "repeat",
            tuple(body),
            tuple(self.carried),
            count=known(repetitions(self.instance)),
            mask=mask,
            index=self.index if indexed else None,
            origin=self.origin,
        )
        step.statements = [*before, *self.firsts, region]
        for index, result in enumerate(results):
            _replace_after(state, index, result)
        state.views["next"].update(rewarded)
        _observe_again(state, self.origin)

    def _step(
        self, now: Sequence[Statement], inside: Sequence[Statement], wanted: Mapping[str, Symbol]
    ) -> Program:
        """One step of the chain so far, as it is printed; what it reads at the root is computed of what it is given."""
        copies = dict(
            zip(
                (target for one in self.state.bodies["now"].statements for target in targets(one)),
                (target for one in now for target in targets(one)),
                strict=True,
            )
        )
        swapped = {symbol: read(copy) for symbol, copy in copies.items()}
        body = [*now, *(rewritten(statement, swapped.get) for statement in inside)]
        made = {target for statement in body for target in targets(statement)}
        outputs = tuple(Output(name, copies.get(symbol, symbol), "cell") for name, symbol in wanted.items())
        found = dict.fromkeys(symbol for statement in body for symbol in reads(statement))
        found |= dict.fromkeys(output.symbol for output in outputs)
        fixed = [one for one in self.state.fixed if one.symbol in found]
        others = found.keys() - made - {one.symbol for one in fixed}
        inputs = (*fixed, *(Input(one, "data") for one in found if one in others))
        program = Program(f"{self.state.chain.name}_repeated", inputs, tuple(body), outputs)
        return tidy(fold(cut(program, outputs)))

    def _carry(self, now: Symbol, end: Symbol, place: str) -> tuple[Symbol, Symbol]:
        """Hand on a value: what it is in an iteration, and behind the loop.

        `place` tells it from all others: two cells may have one name, and a reward that of a cell.
        """
        each, last = self._symbol("each", place, end), self._symbol("last", place, end)
        init = read(now) if now in self.read else self._nothing(place, end)
        self.carried.append(Carried(each, init, end, last))
        return each, last

    def _carry_reward(self, name: str, after: Mapping[str, Symbol]) -> Symbol:
        """Hand on a reward: that of the last repetition, or what is folded of all of them."""
        end = after[name]
        place = f"reward.{name}"
        each, last = self._symbol("each", place, end), self._symbol("last", place, end)
        for index, row in enumerate(self.instance.rows):
            for role in self.instance.transform.folded:
                if row.inputs[role.name].dotted != name:
                    continue
                local = _bound(self.state, self.instance, row, "fold", index, after)
                local.bind(row.symbols[f"fold.in.acc.{role.name}"], each)
                local.bind(row.symbols[f"fold.in.{NTH}"], self.index)
                value = _assigned(local, self.instance, row, "fold")[role.name]
                end = self._symbol("folded", place, end)
                self.behind += [*local.statements, Assign(end, store(value, end.type), self.origin)]
        self.carried.append(Carried(each, self._nothing(place, end), end, last))
        return last

    def _mask(self, after: Mapping[str, Symbol]) -> Symbol:
        """The rows that have stopped: those that are done, and those of which `until` says so."""
        place = next(index for index, one in enumerate(self.state.cells) if one.entry.key == ("done",))
        flags = [after[f"cell {place}"]]
        for index, row in enumerate(self.instance.rows):
            if not self.instance.statements("until", row):
                continue
            local = _bound(self.state, self.instance, row, "until", index, after)
            local.bind(row.symbols[f"until.in.{NTH}"], self.index)
            value = _assigned(local, self.instance, row, "until")["until"]
            flag = Symbol(f"{self.origin}.until{index}", "stops", _FLAG, full("bool"))
            self.behind += [*local.statements, Assign(flag, store(value, _FLAG), self.origin)]
            flags.append(flag)
        over = Symbol(f"{self.origin}.each.over", "over", _FLAG, full("bool"))
        ends = over
        for index, flag in enumerate(flags):
            joined = Symbol(f"{self.origin}.over{index}", "over", _FLAG, full("bool"))
            self.behind.append(Assign(joined, either(ends, flag, _FLAG), self.origin))
            ends = joined
        self.carried.append(Carried(over, self._nothing("over", over), ends))
        return over

    def _nothing(self, place: str, like: Symbol) -> Typed:
        """What nothing reads of the first repetition: false or 0."""
        first = self._symbol("first", place, like)
        self.firsts.append(Assign(first, store(known(False if like.type.dtype == "bool" else 0), first.type)))
        return read(first)

    def _symbol(self, moment: str, place: str, like: Symbol) -> Symbol:
        return Symbol(
            f"{self.origin}.{moment}.{place}",
            like.name,
            like.type,
            full(like.type.dtype),
            like.time,
            like.key,
        )


# what is known of a chain's values


def _rewards(state: ChainState, position: int) -> dict[str, Symbol]:
    """The rewards that reach the transform at `position`; a later one may drop them."""
    entries = [*state.chain.env.value.reward]
    for instance in state.chain.instances[:position]:
        entries += (
            entry for row in instance.rows for entry in row.outputs.values() if entry.role == "reward"
        )
    after = state.views["next"]
    return {entry.dotted: after[entry.dotted] for entry in entries if entry.dotted in after}


def _after(state: ChainState, one: ChainCell) -> Symbol:
    """The value of a cell after the step; a flag that nobody raises is false."""
    if one.entry.role != "done":
        return one.cell.next
    after, name = state.views["next"], one.entry.dotted
    if name not in after:
        symbol = state.flag(one.entry.key, "step.never", "next")
        after[name] = state.bodies["next"].add(symbol, store(known(False), symbol.type))
    return after[name]


def _replace_after(state: ChainState, index: int, symbol: Symbol) -> None:
    """Let a cell have another value after the step, and with it its key, where that shows it."""
    one = state.cells[index]
    after, name = state.views["next"], one.entry.dotted
    if one.entry.role == "done" or after.get(name) == one.cell.next:
        after[name] = symbol
    state.cells[index] = replace(one, cell=replace(one.cell, next=symbol))


def _observe_again(state: ChainState, place: str) -> None:
    """Compute what is observed after the step of the values that the cells have then."""
    known_after = {one.cell.now: read(_after(state, one)) for one in state.cells}
    step = state.bodies["next"]
    step.statements += _copied(state.bodies["now"].statements, known_after, place, "after")
    shown = {one.entry.dotted for one in state.cells}
    for name, symbol in state.views["now"].items():
        made = known_after.get(symbol)
        if name not in shown and name in state.views["next"] and made is not None and made.symbol is not None:
            state.views["next"][name] = made.symbol


def _copied(
    statements: Sequence[Statement], values: dict[Symbol, Typed], place: str, suffix: str
) -> list[Statement]:
    """Statements once more, of other values; `values` gets what they define."""

    def renamed(symbol: Symbol) -> Symbol:
        made = replace(symbol, path=f"{symbol.path}~{place}.{suffix}")
        values[symbol] = read(made)
        return made

    return [rewritten(statement, values.get, renamed) for statement in statements]


def _another(step: Body, symbol: Symbol, place: str) -> Symbol:
    """A new symbol for another value of a key."""
    name = f"{place}.{symbol.name}"
    return step.symbol(
        name, symbol.type, full(symbol.type.dtype), wish=symbol.name, key=symbol.key, time=symbol.time
    )


def _bound(
    state: ChainState, instance: Instance, row: Row, phase: Phase, index: int, after: Mapping[str, Symbol]
) -> Body:
    """A body whose names stand for the values before the step, and after a repetition."""
    local = Body(f"{state.path}.transforms[{instance.position}].{phase}{index}")
    bind_parameters(state, local, instance)
    for name, entry in row.inputs.items():
        for full_name, value in (
            (name, state.views["now"].get(entry.dotted)),
            (f"next.{name}", after.get(entry.dotted)),
        ):
            symbol = row.symbols.get(f"{phase}.in.{full_name}")
            if symbol is not None and value is not None:
                local.bind(symbol, value)
    return local


def _assigned(local: Body, instance: Instance, row: Row, phase: Phase) -> dict[str, Typed]:
    """Add the local values of a part; the values of its targets."""
    values: dict[str, Typed] = {}
    origin = f"{instance.path}"
    for statement in instance.statements(phase, row):
        if statement.target in row.inputs or statement.target == phase:
            values[statement.target] = local.typed(statement)
        else:
            local.assign(statement, origin=origin)
    return values
