"""What transforms of a chain learn: each moment updates their statistics with the rows that are new, and reads them."""

from __future__ import annotations

from typing import Literal

from specgen.check.chains.model import Instance, Row, role_entries
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState, Moment
from specgen.check.transforms.model import Phase
from specgen.expr import Symbol, Type, full
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.symbols import Key
from specgen.program.program import Call, Callee, Effect, Input
from specgen.program.walk import known, read

GROUP = "learned"
"""The record of the statistics of a chain's transforms, as its functions take it."""


def update_statistics(state: ChainState, instance: Instance, moment: Moment) -> None:
    """Learn from what arrives at a transform, and note its statistics behind that; at a reset there are no rewards."""
    if not instance.learns or moment == "now":
        return
    if moment == "reset" and reset_reads_statistics(instance):  # it has learned on the way
        for row in instance.rows:
            read_statistics(state, instance, row, moment, "map")
        return
    if instance.transform.learns == "at_reset" and moment == "next":
        for row in instance.rows:
            read_statistics(state, instance, row, moment, "map")
        return
    _learn(state, instance, moment, "update")


def update_at_reset(state: ChainState, instance: Instance) -> None:
    """Learn of a reset whose statements read statistics, as they were before: nobody else learns in between."""
    if reset_reads_statistics(instance):
        _learn(state, instance, "reset", "read_and_update")


def reset_reads_statistics(instance: Instance) -> bool:
    """Whether `reset` reads what the transform learns."""
    return any(_reads(instance, row, "reset") for row in instance.rows)


def read_statistics(state: ChainState, instance: Instance, row: Row, moment: Moment, phase: Phase) -> None:
    """Note the statistics as they are before an update, where a phase reads them."""
    if _reads(instance, row, phase):
        _call(state, instance, row, moment, "now", [])


def new_rows(state: ChainState, instance: Instance, row: Row, body: Body) -> None:
    """Let positions among the rows that are being reset be known to a body, where a reset asks for them."""
    statements = instance.statements("reset", row)
    if any(node.op == "batch_rank" for one in statements for node in one.typed.nodes):
        origin = f"{state.path}.transforms[{instance.position}]"
        body.new_rows = body.symbol(NEW_ROWS, Type("bool", ()), full("bool"))
        callee = Callee(NEW_ROWS, effect="reads_buffer", receiver=_holder(state, instance))
        body.statements.append(Call((body.new_rows,), callee, origin=origin))


def _reads(instance: Instance, row: Row, phase: Phase) -> bool:
    """Whether a phase reads what the transform learns."""
    names = {buffer.name for buffer in instance.transform.buffers}
    return instance.learns and any(
        not names.isdisjoint(statement.reads) for statement in instance.statements(phase, row)
    )


def _learn(
    state: ChainState, instance: Instance, moment: Moment, name: Literal["update", "read_and_update"]
) -> None:
    """Learn of all repetitions that have values; the first of them teaches what is one for all."""
    transform = instance.transform
    told_before = moment == "next" and not transform.learns_of_steps
    view = state.views[moment]
    common = any(buffer.each is None for buffer in transform.buffers)
    lacking: list[Row] = []
    again = False
    for row in instance.rows:
        entries = [entry for role in transform.learns_from for entry in role_entries(row, role)]
        seen = [view.get(entry.dotted) for entry in entries]
        learned = [symbol for symbol in seen if symbol is not None]
        if transform.learns == "when_called" or told_before or len(learned) < len(seen):
            lacking.append(row)
            continue
        _call(state, instance, row, moment, name, learned, again=again)
        again = common
    for row in lacking:
        _call(state, instance, row, moment, "now", [])


def bind_statistics(state: ChainState, body: Body, instance: Instance, row: Row, moment: Moment) -> None:
    """Let the buffers of a transform stand for what was noted last."""
    for buffer in instance.transform.buffers:
        symbol = row.symbols.get(f"buffers.{buffer.name}")
        value = state.statistics.get((instance.position, _about(instance, row), moment, buffer.name))
        if symbol is not None and value is not None:
            body.bind(symbol, value)


def _call(
    state: ChainState,
    instance: Instance,
    row: Row,
    moment: Moment,
    name: str,
    args: list[Symbol],
    *,
    again: bool = False,
) -> None:
    body = state.bodies[moment]
    about = _about(instance, row)
    made = []
    for buffer in instance.transform.buffers:
        known_as = row.symbols[f"buffers.{buffer.name}"]
        wish = "_".join((*about, buffer.name))
        place = f"transforms[{instance.position}].{'.'.join(about)}.{buffer.name}"
        made.append(body.symbol(place, known_as.type, full(known_as.type.dtype), wish=wish))
        state.statistics[instance.position, about, moment, buffer.name] = made[-1]
    effect: Effect = "reads_buffer" if name == "now" else "writes_buffer"
    callee = Callee(name, effect=effect, receiver=_holder(state, instance), returns_tuple=True, about=about)
    origin = f"{state.path}.transforms[{instance.position}]"
    named = (("again", known(True)),) if again else ()
    body.statements.append(Call(tuple(made), callee, tuple(map(read, args)), named, origin=origin))


def _holder(state: ChainState, instance: Instance) -> Symbol:
    """The statistics of a transform, as an input of the chain's functions."""
    field = instance.field
    holder = Symbol(f"{state.path}.{GROUP}.{field}", field, Type("record", ()))
    state.learned.setdefault(field, Input(holder, "buffer", GROUP))
    return holder


def _about(instance: Instance, row: Row) -> Key:
    """The entry that tells a repetition from others: that of its first role, or the first output as it is named itself."""
    first = instance.transform.first_there
    if first is None:
        return tuple(instance.transform.outputs[0].key.split("."))
    return role_entries(row, first)[0].key
