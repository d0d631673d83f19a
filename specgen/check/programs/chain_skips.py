"""Transforms in a chain that leave out steps: some rows stand still, or what keeps its state is not stepped at all."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.chains.model import Instance
from specgen.check.model import Entry
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState
from specgen.check.programs.chain_values import (
    around_part,
    as_printed,
    copy_of,
    observe_again,
    replace_after,
    rewards_after,
)
from specgen.check.programs.env import either, negated
from specgen.check.transforms.branches import is_nothing, taken
from specgen.expr import Symbol, Type, Typed, full
from specgen.program.program import Carried, Output, Region
from specgen.program.walk import known, read, reads, store, targets, where

_FLAG = Type("bool", (), col=True)


def stand_still(state: ChainState, entries: Mapping[str, Entry]) -> Symbol | None:
    """Keep every entry of the rows that the transforms so far leave out, with a reward of 0.

    Args:
        state: the chain so far.
        entries: those that have come so far.

    Returns:
        A flag of these rows; None where no transform leaves out any.
    """
    if not state.skips:
        return None
    step = state.bodies["next"]
    rows, *others = state.skips
    state.skips = []
    for other in others:
        rows = step.add(step.symbol("skipped", _FLAG, full("bool")), either(rows, other, _FLAG))
    if state.chain.env.value.keeps_state:
        _leave_out(state, entries, rows)
    else:
        for index, one in enumerate(state.cells):
            after = state.after(one)
            value = store(where(rows, one.cell.now, after), after.type)
            replace_after(state, index, step.add(_another(step, after, "kept"), value))
        for name, symbol in rewards_after(state, entries).items():
            value = store(where(rows, _nothing(step, symbol), symbol), symbol.type)
            state.views["next"][name] = step.add(_another(step, symbol, "kept"), value)
    observe_again(state, f"standing{len(step.statements)}")
    return rows


def _leave_out(state: ChainState, entries: Mapping[str, Entry], rows: Symbol) -> None:
    """Take the step so far only where its one row does not stand still: an environment would go on by itself."""
    step, rewards = state.bodies["next"], rewards_after(state, entries)
    after = [state.after(one) for one in state.cells]
    acted, later = step.statements[: state.acted], step.statements[state.acted :]
    needed = {rows}
    for statement in reversed(later):
        if not needed.isdisjoint(targets(statement)):
            needed.update(reads(statement))
    first = [one for one in later if not needed.isdisjoint(targets(one))]
    body = tuple(one for one in later if needed.isdisjoint(targets(one)))
    made = {target for statement in body for target in targets(statement)}
    changed = dict.fromkeys(symbol for symbol in (*after, *rewards.values()) if symbol in made)
    outputs = [Output(symbol.path, symbol, "cell") for symbol in changed]
    program = as_printed(state, f"{state.chain.name}_moving", body, outputs)
    ends = {output.name: output.symbol for output in program.outputs}
    step.statements = [*acted, *first]
    carried: list[Carried] = []

    def carry(before: Typed, symbol: Symbol) -> Symbol:
        kept = _another(step, symbol, "kept")
        carried.append(Carried(_another(step, symbol, "before"), before, ends[symbol.path], kept))
        return kept

    for index, (one, symbol) in enumerate(zip(state.cells, after, strict=True)):
        if symbol in made:
            replace_after(state, index, carry(copy_of(one.cell.now), symbol))
    for name, symbol in rewards.items():
        if symbol in made:
            state.views["next"][name] = carry(read(_nothing(step, symbol)), symbol)
    step.statements.append(Region("when", program.body, tuple(carried), condition=negated(rows)))


def skipped_rows(state: ChainState, instance: Instance, index: int) -> list[Symbol]:
    """The rows that a transform leaves out, by what they were before; nothing where it leaves out none."""
    step = state.bodies["next"]
    statements, values = around_part(state, instance, "skip", index)
    if is_nothing(taken(values["skip"])):
        return []
    step.statements += statements
    origin = f"{state.path}.transforms[{instance.position}]"
    flag = step.symbol(f"skipped{instance.position}.{index}", _FLAG, full("bool"), wish="skipped")
    return [step.add(flag, store(values["skip"], _FLAG), origin)]


def _nothing(step: Body, symbol: Symbol) -> Symbol:
    """The reward of a row that stands still."""
    return step.add(_another(step, symbol, "nothing"), store(known(0), symbol.type))


def _another(step: Body, symbol: Symbol, place: str) -> Symbol:
    """A new symbol for another value of a key."""
    name = f"{place}.{symbol.name}"
    return step.symbol(
        name, symbol.type, full(symbol.type.dtype), wish=symbol.name, key=symbol.key, time=symbol.time
    )
