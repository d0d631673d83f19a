"""What transforms of a chain learn: each moment updates their statistics with the rows that are new, and reads them."""

from __future__ import annotations

from specgen.check.chains.model import Instance, Row
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState, Moment
from specgen.check.transforms.model import Phase
from specgen.expr import Symbol, Type, full
from specgen.expr.symbols import Key
from specgen.program.program import Call, Callee, Effect, Input
from specgen.program.walk import read

GROUP = "learned"
"""The record of the statistics of a chain's transforms, as its functions take it."""


def update_statistics(state: ChainState, instance: Instance, row: Row, moment: Moment) -> None:
    """Learn from what arrives at a transform, and note its statistics behind that; at a reset there are no rewards."""
    transform = instance.transform
    if not instance.learns or moment == "now":
        return
    if transform.learns == "at_reset" and moment == "next":
        read_statistics(state, instance, row, moment, "map")
        return
    reads = {name for statement in transform.update for name in statement.reads}
    view = state.views[moment]
    seen = [view.get(row.inputs[role.name].dotted) for role in transform.forward if role.name in reads]
    learned = [symbol for symbol in seen if symbol is not None]
    known = moment == "next" and not transform.learns_of_steps
    if transform.learns == "when_called" or known or len(learned) < len(seen):
        _call(state, instance, row, moment, "now", [])
    else:
        _call(state, instance, row, moment, "update", learned)


def read_statistics(state: ChainState, instance: Instance, row: Row, moment: Moment, phase: Phase) -> None:
    """Note the statistics as they are before an update, where a phase reads them."""
    names = {buffer.name for buffer in instance.transform.buffers}
    if instance.learns and any(
        not names.isdisjoint(statement.reads) for statement in instance.statements(phase, row)
    ):
        _call(state, instance, row, moment, "now", [])


def bind_statistics(state: ChainState, body: Body, instance: Instance, row: Row, moment: Moment) -> None:
    """Let the buffers of a transform stand for what was noted last."""
    for buffer in instance.transform.buffers:
        symbol = row.symbols.get(f"buffers.{buffer.name}")
        value = state.statistics.get((instance.position, _about(instance, row), moment, buffer.name))
        if symbol is not None and value is not None:
            body.bind(symbol, value)


def _call(
    state: ChainState, instance: Instance, row: Row, moment: Moment, name: str, args: list[Symbol]
) -> None:
    body = state.bodies[moment]
    about = _about(instance, row)
    field = instance.field
    holder = Symbol(f"{state.path}.{GROUP}.{field}", field, Type("record", ()))
    state.learned.setdefault(field, Input(holder, "buffer", GROUP))
    made = []
    for buffer in instance.transform.buffers:
        known = row.symbols[f"buffers.{buffer.name}"]
        wish = "_".join((*about, buffer.name))
        place = f"transforms[{instance.position}].{'.'.join(about)}.{buffer.name}"
        made.append(body.symbol(place, known.type, full(known.type.dtype), wish=wish))
        state.statistics[instance.position, about, moment, buffer.name] = made[-1]
    effect: Effect = "writes_buffer" if name == "update" else "reads_buffer"
    callee = Callee(name, effect=effect, receiver=holder, returns_tuple=True, about=about)
    origin = f"{state.path}.transforms[{instance.position}]"
    body.statements.append(Call(tuple(made), callee, tuple(map(read, args)), origin=origin))


def _about(instance: Instance, row: Row) -> Key:
    """The entry that tells a repetition from others: that of its first role."""
    return row.inputs[instance.transform.forward[0].name].key
