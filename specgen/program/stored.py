"""Passes over stored values: copies disappear, values are stored where they are made, and find their batch shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from specgen.expr import Symbol, Type, Typed
from specgen.expr.relayout import relayout
from specgen.program.cut import in_order
from specgen.program.program import DONE_FLAGS, Assign, Program, Statement
from specgen.program.verify import effects, verified
from specgen.program.walk import (
    read,
    reads,
    reads_symbol,
    rewritten,
    substituted,
    symbol_for,
    targets,
    with_body,
)
from specgen.values import replace


@verified()
def copies(program: Program) -> Program:
    """`a = b` that the compiler made disappears: readers read `b`, and two outputs may then be one symbol."""
    same: dict[Symbol, Typed] = {}
    body: list[Statement] = []
    for statement in program.body:
        statement = rewritten(statement, same)
        if isinstance(statement, Assign) and statement.origin is None and reads_symbol(statement.value):
            assert statement.value.symbol is not None
            same[statement.target] = read(statement.value.symbol)
            continue
        body.append(statement)
    if not same:
        return program
    outputs = tuple(replace(output, symbol=symbol_for(output.symbol, same)) for output in program.outputs)
    return replace(program, body=tuple(body), outputs=outputs)


@verified()
def stored_where_made(program: Program) -> Program:
    """`t = e; s = store(t)`, where nothing else reads `t`, becomes `s = store(e)` in the place of `t`."""
    uses = Counter(symbol for statement in program.body for symbol in reads(statement))
    uses.update(output.symbol for output in program.outputs)
    made = {one.target: one for one in program.body if isinstance(one, Assign)}
    moved: dict[Symbol, Assign] = {}
    for statement in program.body:
        if not isinstance(statement, Assign) or statement.origin is not None or statement.value.op != "store":
            continue
        value, *like = statement.value.args
        first = made.get(value.symbol) if reads_symbol(value) and value.symbol is not None else None
        if first is not None and uses[first.target] == 1 and first.value.op != "store" and not like:
            stored = replace(statement.value, args=(first.value,))
            moved[first.target] = replace(statement, value=stored, origin=first.origin)
    if not moved:
        return program
    gone = {one.target for one in moved.values()}
    body: list[Statement] = []
    for statement in program.body:
        if isinstance(statement, Assign) and statement.target in moved:
            body.append(moved[statement.target])
        elif not isinstance(statement, Assign) or statement.target not in gone:
            body.append(statement)
    return replace(program, body=tuple(body))


@verified()
def read_from_records(program: Program, recorded: Iterable[Symbol]) -> Program:
    """Readers of a value that a record holds in its stored form read the record's.

    Args:
        program: the program.
        recorded: the stored values; what each was before it was stored is replaced by it.
    """
    recorded = set(recorded)
    stored: dict[Symbol, Typed] = {}
    for statement in program.body:
        if isinstance(statement, Assign) and statement.target in recorded and statement.value.op == "store":
            value, type = statement.value.args[0], statement.value.type
            plain = value.symbol if reads_symbol(value) else None
            if plain is not None and replace(plain.type, col=type.col) == type:
                stored[plain] = read(statement.target)
    if not stored:
        return program
    makers = {value.symbol for value in stored.values()}
    body: list[Statement] = []
    for statement in program.body:
        if not isinstance(statement, Assign) or statement.target not in makers:
            statement = rewritten(statement, stored)
        body.append(statement)
    return laid_out(replace(program, body=tuple(in_order(body))))


@verified(given=False)
def laid_out(program: Program) -> Program:
    """The program with every layout as its operands have it, in expressions and in the symbols that they define."""
    known = {one.symbol: read(one.symbol) for one in program.inputs}
    body: list[Statement] = []
    for statement in program.body:
        if isinstance(statement, Assign):
            value = relayout(substituted(statement.value, known))
            target = statement.target
            if value.op != "store" and value.type.col != target.type.col:
                target = replace(target, type=replace(target.type, col=value.type.col))
            statement = replace(statement, target=target, value=value)
        known.update((target, read(target)) for target in targets(statement))
        body.append(statement)
    outputs = tuple(replace(output, symbol=symbol_for(output.symbol, known)) for output in program.outputs)
    return replace(program, body=tuple(body), outputs=outputs)


@verified(witnesses=True)
def witnessed(program: Program) -> Program:
    """The program with a tensor that tells rows and device beside every value that has none, in an order that allows it.

    Run on a whole step, before it is cut: `reward: 1.0` has no tensor in its own part.
    """
    wanting = {one.target for one in program.body if isinstance(one, Assign) and _wants_rows(one.value)}
    placeless = {one.target for one in program.body if isinstance(one, Assign) and _wants_device(one.value)}
    if not wanting and not placeless:
        return program
    flow = [(reads(one), targets(one)) for one in program.body]
    seen = [one.symbol for one in program.inputs]
    seen += [target for one in program.body for target in targets(one) if target not in wanting | placeless]
    seen = [symbol for symbol in seen if not symbol.type.python and not symbol.type.open]
    seen = [symbol for symbol in seen if symbol.type.dtype not in ("record", "function")]  # what is no tensor
    # Where nothing has rows, as in a declared function without arguments, a table still tells the device.
    seen = [symbol for symbol in seen if symbol.type.level == "batch"] or seen
    body: list[Statement] = []
    later = _made_later(program, flow)
    for statement, not_yet in zip(program.body, later, strict=True):
        if isinstance(statement, Assign) and statement.target in wanting | placeless:
            target, value = statement.target, statement.value
            behind = _computed_from({target, *not_yet}, flow)
            known = [symbol for symbol in seen if symbol not in behind]
            if target in wanting and (like := _witness(target, value.type, known, program)) is not None:
                statement = replace(statement, value=replace(value, args=(*value.args, read(like))))
            elif target in placeless and known:
                like = min(known, key=_stored_rank)
                placed = Typed("place", value.type, value.interval, (value, read(like)))
                statement = replace(statement, value=placed)
        body.append(statement)
    return replace(program, body=tuple(in_order(body)))


def tidy(program: Program) -> Program:
    """What every part goes through before it is printed. The order matters: copies, stored forms, then witnesses."""
    for change in (copies, stored_where_made, witnessed):
        program = change(program)
    return with_body(program, program.body)


def _wants_rows(value: Typed) -> bool:
    if value.op != "store" or len(value.args) > 1 or value.type.open or value.type.level != "batch":
        return False
    return value.args[0].type.level != "batch" and not _reads(value, "batch")


def _wants_device(value: Typed) -> bool:
    """Whether a tensor is made of nothing: without being told it would be made on the default device."""
    if value.op in ("store", "place") or value.static is not None or value.type.level != "const":
        return False
    return all(symbol.type.python for symbol in value.symbols_read)


def _reads(value: Typed, level: str) -> bool:
    return any(symbol.type.level == level for symbol in value.symbols_read)


def _made_later(
    program: Program, flow: Sequence[tuple[Sequence[Symbol], Sequence[Symbol]]]
) -> list[set[Symbol]]:
    """What calls with effects behind each statement make: if it read that, they would happen before it, in another order."""
    found: list[set[Symbol]] = []
    later: set[Symbol] = set()
    for statement, (_, made) in zip(reversed(program.body), reversed(flow), strict=True):
        found.append(set(later))
        if effects(replace(program, body=(statement,))):
            later.update(made)
    return found[::-1]


def _computed_from(
    symbols: Iterable[Symbol], flow: Iterable[tuple[Sequence[Symbol], Sequence[Symbol]]]
) -> AbstractSet[Symbol]:
    """Values and those computed from them; `flow` has what each statement reads and defines, in order."""
    found = set(symbols)
    for read_here, defined_here in flow:
        if not found.isdisjoint(read_here):
            found.update(defined_here)
    return found


def _stored_rank(symbol: Symbol) -> int:
    return symbol.type.rank + symbol.type.col


def _witness(target: Symbol, type: Type, seen: Sequence[Symbol], program: Program) -> Symbol | None:
    """The tensor that a value without rows takes them from: what stood under its key, or one that is stored alike."""
    marked = next((one.symbol for one in program.inputs if one.kind == "witness"), None)
    if marked is not None:
        return marked
    key = target.key
    own = [s for s in seen if key is not None and (s.key, s.time, target.time) == (key, "now", "next")]
    alike = [s for s in seen if (s.type.dims, s.type.col, s.type.dtype) == (type.dims, type.col, "bool")]
    after = [s for s in alike if s.time == "next"]
    done = [s for s in alike if s.time == "now" and s.key is not None and s.key[-1] == "done"]
    flag = key is not None and key[-1] in DONE_FLAGS
    found = (after or done or own if flag else own or after) or alike or sorted(seen, key=_stored_rank)
    return found[0] if found else None
