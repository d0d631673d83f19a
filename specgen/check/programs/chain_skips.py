"""Transforms in a chain that leave out steps: some rows stand still."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.chains.model import Instance
from specgen.check.model import Entry
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState
from specgen.check.programs.chain_values import around_part, observe_again, replace_after, rewards_after
from specgen.check.programs.env import either
from specgen.check.transforms.branches import is_nothing, taken
from specgen.expr import Symbol, Type, full
from specgen.program.walk import known, store, where

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
    for index, one in enumerate(state.cells):
        after = state.after(one)
        kept = step.add(_another(step, after, "kept"), store(where(rows, one.cell.now, after), after.type))
        replace_after(state, index, kept)
    for name, symbol in rewards_after(state, entries).items():
        nothing = step.add(_another(step, symbol, "nothing"), store(known(0), symbol.type))
        value = store(where(rows, nothing, symbol), symbol.type)
        state.views["next"][name] = step.add(_another(step, symbol, "kept"), value)
    observe_again(state, f"standing{len(step.statements)}")
    return rows


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


def _another(step: Body, symbol: Symbol, place: str) -> Symbol:
    """A new symbol for another value of a key."""
    name = f"{place}.{symbol.name}"
    return step.symbol(
        name, symbol.type, full(symbol.type.dtype), wish=symbol.name, key=symbol.key, time=symbol.time
    )
