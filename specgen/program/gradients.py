"""What no gradient of a loss goes through is computed in blocks without gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from specgen.expr import Symbol, Typed
from specgen.expr.dtypes import is_float
from specgen.program.program import Assign, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import reads, targets, with_parts
from specgen.values import replace


def trained_through(program: Program) -> frozenset[Symbol]:
    """The values that a gradient of a term may go through: what it reads, but for what is, or stands in, `stop_grad`."""
    found = {output.symbol for output in program.outputs if output.role == "term"}
    for statement in reversed(program.body):
        if isinstance(statement, Region) and statement.kind == "no_grad":
            continue
        if isinstance(statement, Assign):
            passing = set(_passing(statement.value))
            if not passing:
                found.discard(statement.target)
            elif statement.target in found:
                found |= passing
        elif not found.isdisjoint(targets(statement)):
            found.update(reads(statement))
    return frozenset(found)


def _passing(expr: Typed) -> Iterator[Symbol]:
    if expr.op == "stop_grad":
        return
    if expr.op == "name":
        yield from expr.symbols_read
        return
    yield from expr.captured
    for part in expr.parts:
        yield from _passing(part)


@verified()
def in_no_grad(program: Program) -> Program:
    """The program of a loss, whose terms don't train what is computed in regions without gradients.

    Values side by side share a region; one that costs nothing has none for itself. Values stay what they are: only
    gradients that would be thrown away are not computed.
    """
    trained = trained_through(program)
    made: list[Statement] = []
    side: list[Assign] = []
    for statement in _with_own_values(program.body, trained, {one.symbol for one in program.outputs}):
        if isinstance(statement, Assign) and statement.target not in trained:
            side.append(statement)
            continue
        made += _together(side)
        side = []
        made.append(statement)
    made += _together(side)
    return replace(program, body=tuple(made))


def _with_own_values(
    body: Sequence[Statement], trained: Collection[Symbol], kept: Collection[Symbol]
) -> list[Statement]:
    """The statements, with values that only one region without gradients reads computed inside that, at its start.

    Args:
        body: the statements of a program.
        trained: the values that a gradient may go through: they stay where they are.
        kept: the outputs, which do, too.
    """
    inside: dict[int, list[Assign]] = {}
    readers: dict[Symbol, set[int]] = {}
    for place, statement in reversed(list(enumerate(body))):
        within = place
        if isinstance(statement, Assign) and _has_gradient(statement.value):
            places = readers.get(statement.target, set())
            (only,) = places if len(places) == 1 else (place,)
            region = body[only]
            if (
                isinstance(region, Region)
                and region.kind == "no_grad"
                and statement.target not in {*trained, *kept}
            ):
                within = only
                inside.setdefault(only, []).insert(0, statement)
        for symbol in reads(statement):
            readers.setdefault(symbol, set()).add(within)
    moved = {one.target for assigns in inside.values() for one in assigns}
    return [
        replace(one, body=(*inside[place], *one.body)) if isinstance(one, Region) and place in inside else one
        for place, one in enumerate(body)
        if not (isinstance(one, Assign) and one.target in moved)
    ]


def _together(side: Sequence[Assign]) -> Iterable[Statement]:
    """Statements as one region, from the first that would compute gradients to the last."""
    costly = [place for place, one in enumerate(side) if _has_gradient(one.value)]
    if not costly:
        return side
    first, last = costly[0], costly[-1] + 1
    inner = {one.target: replace(one.target, path=f"{one.target.path}.untrained") for one in side[first:last]}
    body = tuple(
        replace(one, target=inner[one.target], value=_renamed(one.value, inner)) for one in side[first:last]
    )
    region = Region("no_grad", body, results=tuple(inner.items()), origin=side[first].origin)
    return (*side[:first], region, *side[last:])


def _has_gradient(value: Typed) -> bool:
    """Whether a value may be computed with gradients: a number that is no other one, and not made of parameters alone."""
    stopped = value.op == "stop_grad" and value.args[0].op == "name"
    return is_float(value.type.dtype) and value.type.level == "batch" and value.op != "name" and not stopped


def _renamed(expr: Typed, names: Mapping[Symbol, Symbol]) -> Typed:
    if expr.op == "name":
        renamed = None if expr.symbol is None else names.get(expr.symbol)
        return expr if renamed is None else replace(expr, symbol=renamed)
    return with_parts(expr, lambda part: _renamed(part, names))
