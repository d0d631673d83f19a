"""Transforms in a chain that step the environment before them: its step becomes a loop, or stands still in some rows."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.chains.around import folded_entries, repetitions
from specgen.check.chains.model import Instance, role_entries
from specgen.check.model import Entry
from specgen.check.programs.chain_reset_steps import apply_reset_steps
from specgen.check.programs.chain_skips import skipped_rows, stand_still
from specgen.check.programs.chain_state import ChainCell, ChainState
from specgen.check.programs.chain_transforms import apply_transform, nth_symbol
from specgen.check.programs.chain_values import (
    around_part,
    as_printed,
    copied,
    observe_again,
    replace_after,
    rewards_after,
)
from specgen.check.programs.env import either
from specgen.check.transforms.branches import is_nothing, taken
from specgen.check.transforms.names import NTH
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.relayout import relayout
from specgen.program.program import Assign, Carried, Cell, Output, Program, Region, Statement
from specgen.program.walk import known, read, reads, reads_symbol, rewritten, store, targets, where
from specgen.values import replace

_FLAG = Type("bool", (), col=True)
_STILL = "rows that stand still"
"""No key is called so."""


def apply_around(state: ChainState, instance: Instance) -> None:
    """Repeat the step of the chain so far, or note the rows in which it stands still."""
    around = instance.transform.around
    assert around is not None
    if around.kind == "skip":
        for index in range(len(instance.rows)):
            state.skips += skipped_rows(state, instance, index)
    elif around.kind == "reset_steps":
        apply_reset_steps(state, instance)
    else:
        still = stand_still(state, instance.entries)
        _Loop(state, instance, still).apply()
    apply_transform(state, instance)  # its map, of what there is then


class _Loop:
    """The step of a chain so far as the body of a loop.

    Attributes:
        still: the rows that stand still in a repetition, where the step of the chain so far leaves out some: of them nothing
            is folded, collected or counted.
        leaves: whether it is left when its row has stopped: the environment keeps its state to itself.
        program: one step, as it is printed; its outputs are the cells and rewards after it.
        after: these, by name.
        carried: what each repetition hands on.
        firsts: what stands before the loop.
        behind: what stands in the loop, behind the step.
        results: the values of all repetitions behind the loop, each with the one of a repetition.
        start: how many statements of the step stand before the loop: those that make of what the policy wrote what one
            repetition after another is given stand in it.
    """

    def __init__(self, state: ChainState, instance: Instance, still: Symbol | None) -> None:
        self.state = state
        self.instance = instance
        self.origin = f"{state.path}.transforms[{instance.position}]"
        self.index = nth_symbol(self.origin)
        self.rewards = rewards_after(state, instance.entries)
        self.leaves = state.chain.env.value.keeps_state
        inside = [count for at, count in state.acting.items() if at <= instance.position]
        self.start = min([state.acted, *inside])
        self.program = self._step(still)
        self.after = {output.name: output.symbol for output in self.program.outputs}
        self.still = self.after.get(_STILL)
        self.carried: list[Carried] = []
        self.firsts: list[Statement] = []
        self.behind: list[Statement] = []
        self.results: list[tuple[Symbol, Symbol]] = []

    def apply(self) -> None:
        """Put the step into the loop; what each key is afterwards is what the loop ends with."""
        state, step = self.state, self.state.bodies["next"]
        inner, results = self._carry_cells()
        folded = folded_entries(self.instance)
        values = self._carry_values(dict.fromkeys((*self.rewards, *folded)))
        stood = (
            self._never_moved() if self.still is not None and folded.keys() - self.rewards.keys() else None
        )
        over = self._over_so_far()
        collected = self._collected(over)
        mask = self._mask(over)
        body = (*(rewritten(statement, inner) for statement in self.program.body), *self.behind)
        indexed = any(self.index in reads(statement) for statement in body)
        region = Region(
            "repeat",
            body,
            tuple(self.carried),
            count=repetitions(self.instance),
            mask=mask,
            index=self.index if indexed else None,
            leaves=self.leaves,
            results=tuple(self.results),
            origin=self.origin,
        )
        step.statements = [*step.statements[: self.start], *self.firsts, region]
        for index, result in enumerate(results):
            replace_after(state, index, result)
        state.views["next"].update((name, value) for name, value in values.items() if name in self.rewards)
        observe_again(state, self.origin)
        for name, entry in folded.items():
            if name not in self.rewards:
                self._record(entry, values[name], state.views["reset"][name], stood)
        for entry, value in collected:
            self._record(entry, value, None)

    def _step(self, still: Symbol | None) -> Program:
        """One step of the chain so far; what it reads at the root is computed of what it is given."""
        state = self.state
        seen = {entry.dotted for row in self.instance.rows for entry in row.inputs.values()}
        wanted = {f"cell {index}": state.after(one) for index, one in enumerate(state.cells)}
        wanted |= {n: symbol for n, symbol in state.views["next"].items() if n in seen | self.rewards.keys()}
        if still is not None:
            wanted[_STILL] = still
        copies: dict[Symbol, Typed] = {}
        body = copied(state.bodies["now"].statements, copies, self.origin, "now")
        inside = state.bodies["next"].statements[self.start :]
        body += [rewritten(statement, copies) for statement in inside]
        ends = ((name, copies.get(symbol, read(symbol)).symbol) for name, symbol in wanted.items())
        outputs = [Output(name, symbol, "cell") for name, symbol in ends if symbol is not None]
        return as_printed(state, f"{state.chain.name}_repeated", body, outputs)

    def _carry_cells(self) -> tuple[dict[Symbol, Typed], list[Symbol]]:
        """Hand on the cells: what each of them is in an iteration, and behind the loop."""
        defined = {target for statement in self.program.body for target in targets(statement)}
        read_before = {symbol for statement in self.program.body for symbol in reads(statement)}
        inner: dict[Symbol, Typed] = {}
        results: list[Symbol] = []
        for index, one in enumerate(self.state.cells):
            now, end, place = one.cell.now, self.after[f"cell {index}"], f"cell{index}"
            if end not in defined:
                results.append(end)  # what the step never changes is not carried
                continue
            init = read(now) if now in read_before else self._nothing(place, end)
            inner[now] = read(each := self._symbol("each", place, end))
            results.append(self._carry(place, each, init, end))
        return inner, results

    def _carry_values(self, names: Collection[str]) -> dict[str, Symbol]:
        """Hand on rewards, and other values: those of the last repetition, or what is folded of all of them."""
        so_far = {name: self._symbol("each", f"value.{name}", self.after[name]) for name in names}
        nothing = {name: self._nothing(f"value.{name}", self.after[name]) for name in names}
        ends = {name: self.after[name] for name in names}
        for index, row in enumerate(self.instance.rows):
            folded = {
                role.name: entry.dotted
                for role in self.instance.transform.folded
                for entry in role_entries(row, role)
            }
            given = {f"acc.{role}": so_far[name] for role, name in folded.items()}
            statements, values = around_part(
                self.state, self.instance, "fold", index, self.after, {**given, NTH: self.index}
            )
            self.behind += statements
            for role, name in folded.items():
                ends[name] = self._symbol("folded", f"value.{name}.{index}", self.after[name])
                self.behind.append(Assign(ends[name], store(values[role], ends[name].type), self.origin))
        if self.still is not None:
            ends = {
                name: self._unless_still(f"value.{name}", so_far[name], end) for name, end in ends.items()
            }
        return {name: self._carry(f"value.{name}", so_far[name], nothing[name], ends[name]) for name in names}

    def _unless_still(self, place: str, before: Symbol, after: Symbol) -> Symbol:
        """A value behind a repetition: in the rows that stand still in it, what was before it."""
        assert self.still is not None
        kept = self._symbol("moved", place, after)
        self.behind.append(Assign(kept, store(where(self.still, before, after), kept.type), self.origin))
        return kept

    def _never_moved(self) -> Symbol:
        """The rows that stand still in all repetitions."""
        assert self.still is not None
        so_far = Symbol(f"{self.origin}.each.stood", "stood", _FLAG, full("bool"))
        first, after = self._symbol("first", "stood", so_far), self._symbol("all", "stood", so_far)
        self.firsts.append(Assign(first, store(known(True), _FLAG)))
        both = Typed("and", _FLAG, full("bool"), (read(so_far), read(self.still)), builtin=TABLE["and"])
        self.behind.append(Assign(after, store(both, _FLAG), self.origin))
        return self._carry("stood", so_far, read(first), after)

    def _carry(self, place: str, each: Symbol, init: Typed, end: Symbol) -> Symbol:
        """Hand on a value; what it is behind the loop."""
        last = self._symbol("last", place, end)
        self.carried.append(Carried(each, init, end, last))
        return last

    def _over_so_far(self) -> Symbol:
        """The rows that have stopped before a repetition."""
        return Symbol(f"{self.origin}.each.over", "over", _FLAG, full("bool"))

    def _collected(self, over: Symbol) -> list[tuple[Entry, Symbol]]:
        """The values of all repetitions, 0 behind the last one of a row; and how many a row took."""
        around, found = self.instance.transform.around, list[tuple[Entry, Symbol]]()
        assert around is not None
        for index, row in enumerate(self.instance.rows):
            given = {NTH: self.index}
            statements, values = around_part(self.state, self.instance, "collect", index, self.after, given)
            self.behind += statements
            for output, role in around.stacked.items():
                several = [entry for name, entry in row.inputs.items() if name.partition(".")[0] == role]
                for number, entry in enumerate(several):
                    if f"{output}.{number}" in row.outputs:
                        values[f"{output}.{number}"] = read(self.after[entry.dotted])
            for name, value in values.items():
                entry, place = row.outputs[name], f"collected{index}.{name}"
                one = replace(entry.type, dims=entry.type.dims[1:])
                made = value.symbol if value.type == one and reads_symbol(value) else None
                if made is None:
                    made = Symbol(f"{self.origin}.each.{place}", entry.name, one, full(one.dtype))
                    self.behind.append(Assign(made, store(value, one), self.origin))
                kept = made
                if self.still is not None or not self.leaves:
                    nothing = self._nothing(place, made).symbol
                    assert nothing is not None
                    if self.still is not None:
                        kept = made = self._unless_still(place, nothing, made)
                if not self.leaves:
                    assert nothing is not None
                    kept = Symbol(f"{self.origin}.kept.{place}", entry.name, one, full(one.dtype))
                    self.behind.append(Assign(kept, store(where(over, nothing, made), one), self.origin))
                whole = Symbol(
                    f"{self.origin}.{place}", entry.name, entry.type, entry.spec.interval, "next", entry.key
                )
                self.results.append((whole, kept))
                found.append((entry, whole))
            if around.taken is not None and around.taken in row.outputs:
                entry = row.outputs[around.taken]
                so_far = Symbol(f"{self.origin}.each.taken{index}", entry.name, entry.type, full("int64"))
                more = self._symbol("more", f"taken{index}", so_far)
                self.behind.append(Assign(more, store(_one_more(so_far), more.type), self.origin))
                if self.still is not None:
                    more = self._unless_still(f"taken{index}", so_far, more)
                found.append(
                    (entry, self._carry(f"taken{index}", so_far, self._nothing("taken", so_far), more))
                )
        return found

    def _record(self, entry: Entry, value: Symbol, first: Symbol | None, stood: Symbol | None = None) -> None:
        """Let a key have a value after the step that nobody can compute of the state.

        Args:
            entry: the key.
            value: what it has after the step.
            first: what it has at a reset.
            stood: the rows that keep what they had.
        """
        state, name = self.state, entry.dotted
        state.views["next"][name] = value
        if entry.role == "reward":
            state.views["reset"].pop(name, None)
            return
        reset, place = state.bodies["reset"], f"transforms[{self.instance.position}].{name}"
        made = reset.symbol(
            place, entry.type, entry.spec.interval, wish=entry.name, key=entry.key, time="now"
        )
        nothing = known(False if entry.type.dtype == "bool" else 0)
        fresh = (
            store(nothing, entry.type)
            if first is None
            else Typed("copy", made.type, made.interval, (read(first),))
        )
        reset.add(made, fresh, self.origin)
        now = Symbol(
            f"{state.path}.cells.{place}", entry.name, entry.type, entry.spec.interval, "now", entry.key
        )
        if stood is not None:
            kept = self._symbol("stood", f"value.{name}", value)
            state.bodies["next"].add(kept, store(where(stood, now, value), kept.type), self.origin)
            state.views["next"][name] = value = kept
        state.see(name, reset=made, now=now)
        state.cells.append(
            ChainCell(Cell(entry.name, now, made, value, entry.key), entry, self.instance.position)
        )

    def _mask(self, over: Symbol) -> Symbol:
        """The rows that have stopped: those that are done, and those of which `until` says so."""
        cells = enumerate(self.state.cells)
        flags = [self.after[f"cell {index}"] for index, one in cells if one.entry.key == ("done",)]
        for index, row in enumerate(self.instance.rows):
            if self.instance.statements("until", row):
                given = {NTH: self.index}
                statements, values = around_part(self.state, self.instance, "until", index, self.after, given)
                if is_nothing(taken(values["until"])):
                    continue  # nothing stops it without the key that may be missing
                flag = Symbol(f"{self.origin}.until{index}", "stops", _FLAG, full("bool"))
                self.behind += [*statements, Assign(flag, store(values["until"], _FLAG), self.origin)]
                flags.append(flag)
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
        """A value like another one; `place` tells it from all others, of which some may have its name."""
        path = f"{self.origin}.{moment}.{place}"
        return Symbol(path, like.name, like.type, full(like.type.dtype), like.time, like.key)


def _one_more(symbol: Symbol) -> Typed:
    """A whole number and 1."""
    kind = replace(symbol.type, col=False)
    sum_ = Typed("+", kind, full(kind.dtype), (read(symbol), known(1)), builtin=TABLE["+"])
    return relayout(sum_)
