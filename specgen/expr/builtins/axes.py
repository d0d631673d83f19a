"""Axes of values whose dimensions are not all known: where they are, and how they are counted from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from specgen.expr.builtins.functions import FUNCTIONS
from specgen.expr.builtins.operators import OPERATORS
from specgen.expr.interval import Interval, point
from specgen.expr.printer import Printer
from specgen.expr.sizes import Dim, Dims, Rest, Sizes
from specgen.expr.types import Type, Typed
from specgen.values import replace

_MAX_RANK = 64
"""No tensor of torch has more dimensions."""

_BUILTINS = {builtin.name: builtin for builtin in (*OPERATORS, *FUNCTIONS)}

Axis = int | Typed
"""An axis: its place counted from the front where the rank is known, else an expression that counts from the end."""


def written_dims(shape: object) -> Sizes:
    """The dimensions that a setting names: numbers, and expressions that are sizes."""
    dims: list[Dim] = []
    for size in cast("tuple[int | Typed, ...]", shape):
        known = size.interval.known_size if isinstance(size, Typed) else size
        assert known is not None
        dims.append(known)
    return tuple(dims)


def rank_of(dims: Dims) -> tuple[Typed, int] | None:
    """How many dimensions there are, as the rank of a role and how many more; None where no role tells."""
    rest = next((size for size in dims if isinstance(size, Rest)), None)
    if rest is None or rest.rank is None:
        return None
    symbol = rest.rank
    name = Typed("name", Type("int64", (), "ctor"), Interval(0, _MAX_RANK), text=symbol.name, symbol=symbol)
    return name, len(dims) - 1 - rest.named


def from_end(dims: Dims, axis: int) -> Typed | None:
    """The axis that stands at the place `axis` from the front, counted from the end: `1 - x_rank`."""
    found = rank_of(dims)
    if found is None:
        return None
    rank, more = found
    if axis == more:
        values = Interval(-_MAX_RANK, 0)
        return Typed("neg", rank.type, values, (rank,), {"operand_dtype": "int64"}, builtin=_BUILTINS["neg"])
    return _apply("-", _whole(axis - more), rank)


def either_end(dims: Dims, axis: Typed) -> Typed | None:
    """A computed axis that may be counted from either end, as one that counts from the end."""
    found = rank_of(dims)
    if found is None:
        return _joined(dims, axis)
    rank, more = found
    counted = _apply("-", axis, rank if not more else _apply("+", rank, _whole(more)))
    negative = Typed("<", Type("bool", (), "ctor"), Interval(0, 1), (axis, _whole(0)), builtin=_BUILTINS["<"])
    values = Interval(-_MAX_RANK, -1)
    return Typed("where", axis.type, values, (negative, axis, counted), builtin=_BUILTINS["where"])


def _joined(dims: Dims, axis: Typed) -> Typed | None:
    """The axis that was made of others: `where(last < 0, last, first)`, of the first and last of those."""
    rest = next((size for size in dims if isinstance(size, Rest)), None)
    if rest is None or rest.joined is None or axis.op != "where":
        return None
    first, last = rest.joined
    named = (*axis.args[0].args[:1], *axis.args[1:])
    said = axis.args[0].op == "<" and axis.args[0].args[1].static == 0
    symbols = [one.args[1].symbol if one.op == "where" else None for one in (last, last, first)]
    return last if said and None not in symbols and symbols == [one.symbol for one in named] else None


def place_of(dims: Dims, axis: Axis) -> int | None:
    """Where in `dims` the axis is; None where it may be among the dimensions that nobody knows."""
    if isinstance(axis, int):
        return axis
    kind = Type("any", dims)
    if isinstance(axis.static, int):
        return len(dims) + axis.static if -axis.static <= len(kind.back) else None
    found = rank_of(dims)
    if found is None or axis.op not in ("-", "neg") or axis.args[-1].symbol != found[0].symbol:
        return None
    first = axis.args[0].static if axis.op == "-" else 0
    if not isinstance(first, int):
        return None
    place = first + found[1]
    return place if 0 <= place < len(kind.front) else None


def resized(dims: Dims, axis: Axis, change: Callable[[Dim], Dim | None]) -> Dims | None:
    """`dims` with another size at the axis; None where `change` gives none."""
    place = place_of(dims, axis)
    if place is None:
        return inexact(dims)
    size = dims[place]
    assert not isinstance(size, Rest)
    made = change(size)
    return None if made is None else (*dims[:place], made, *dims[place + 1 :])


def inserted(dims: Dims, axis: Axis, size: Dim) -> Dims:
    """`dims` with a new dimension at the axis, which is one of the result."""
    if isinstance(axis, int):
        return (*dims[:axis], size, *dims[axis:])
    front = len(Type("any", dims).front)
    for place in (*range(front + 1), *range(front + 1, len(dims) + 1)):
        made = (*dims[:place], size, *dims[place:])
        if place_of(made, axis) == place:
            return made
    return inexact(dims, 1)


def inexact(dims: Dims, more: int = 0) -> Dims:
    """As many dimensions as `dims` has, and `more`, whose sizes nobody knows."""
    rest = next(size for size in dims if isinstance(size, Rest))
    return (replace(rest, exact=False, named=rest.named - (len(dims) - 1) - more),)


def node_axis(node: Typed, printer: Printer) -> str:
    """The axis of a node, among those of its operand, as torch takes it."""
    return axis_text(cast("Axis", node.options["axis"]), node.args[0].type.dims, printer)


def axis_text(axis: Axis, dims: Dims, printer: Printer) -> str:
    """The axis as torch takes it: counted from the end."""
    return str(axis - len(dims)) if isinstance(axis, int) else printer.text(axis)


def _whole(value: int) -> Typed:
    return Typed("literal", Type("int64", (), "lit"), point(value), text=str(value), static=value)


def _apply(sign: str, a: Typed, b: Typed) -> Typed:
    low = a.interval.low - b.interval.high if sign == "-" else a.interval.low + b.interval.low
    high = a.interval.high - b.interval.low if sign == "-" else a.interval.high + b.interval.high
    options = {"operand_dtype": "int64"}
    return Typed(
        sign, Type("int64", (), "ctor"), Interval(low, high), (a, b), options, builtin=_BUILTINS[sign]
    )
