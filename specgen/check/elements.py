"""What an expression of a chain is for known elements of what it reads: numbers in a shape, in plain Python."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from specgen.expr import Symbol, Typed
from specgen.expr.dtypes import is_int
from specgen.expr.types import At, Cut, NewAxis
from specgen.values import dataclass

Numbers = Sequence[float]

_SAME_ORDER = frozenset(
    ("flatten", "unflatten", "squeeze", "unsqueeze", "reshape", "cast", "store", "spread")
)
_FILLED: Final = {"zeros_like": 0.0, "ones_like": 1.0}


@dataclass(frozen=True)
class Elements:
    """The elements of a tensor, row by row; a number of Python has no dimensions."""

    shape: tuple[int, ...]
    numbers: Numbers

    def spread_to(self, shape: tuple[int, ...]) -> Elements:
        """The same in a shape that it broadcasts to."""
        if self.shape == shape:
            return self
        own = (1,) * (len(shape) - len(self.shape)) + self.shape
        strides = [0 if size == 1 else math.prod(own[axis + 1 :]) for axis, size in enumerate(own)]
        return Elements(shape, [self.numbers[place] for place in _places(shape, strides)])


def elements_of(value: Any) -> Elements:
    """Nested lists of numbers, or one number, as elements."""
    if not isinstance(value, list | tuple):
        return Elements((), [value])
    rows = [elements_of(item) for item in value]
    return Elements((len(rows), *rows[0].shape), [number for row in rows for number in row.numbers])


def evaluated(node: Typed, known: Mapping[Symbol, Elements]) -> Elements | None:
    """The elements of an expression, rounded as its dtypes have it.

    Args:
        node: the expression, typed for the keys of a chain.
        known: what names stand for.

    Returns:
        None where a function is not known here, or has no value.
    """
    try:
        return _value(node, known)
    except (ArithmeticError, TypeError, ValueError, KeyError):
        return None


def _value(node: Typed, known: Mapping[Symbol, Elements]) -> Elements:
    if node.static is not None and not isinstance(node.static, str):
        return Elements((), [node.static])
    if node.op == "name":
        assert node.symbol is not None
        return known[node.symbol]
    if node.op == "where" and isinstance(node.args[0].static, bool):
        return _value(node.args[1 if node.args[0].static else 2], known)
    shape = node.type.shape
    if node.op == "full_like" or node.op in _FILLED:
        filled = _value(node.args[1], known).numbers if node.op == "full_like" else [_FILLED[node.op]]
        return _rounded(Elements(shape, [filled[0]] * math.prod(shape)), node)
    args = [_value(arg, known) for arg in node.args]
    return _rounded(_applied(node, args, shape), node)


def _applied(node: Typed, args: list[Elements], shape: tuple[int, ...]) -> Elements:
    axis: Any = node.options.get("axis")
    if node.op in _SAME_ORDER or (node.op == "[]" and all(map(_whole, node.items))):
        moved = len(args[0].numbers) == math.prod(shape)
        return Elements(shape, args[0].numbers) if moved else args[0].spread_to(shape)
    if node.op == "[]":
        return _indexed(args[0], node.items, shape)
    if node.op == "permute":
        axes: Any = node.options["axes"]
        strides = [math.prod(args[0].shape[one + 1 :]) for one in axes]
        return Elements(shape, [args[0].numbers[place] for place in _places(shape, strides)])
    if node.op == "concat":
        return _joined(args, axis, shape)
    if node.op == "tile":
        return _joined([args[0]] * (shape[axis] // args[0].shape[axis]), axis, shape)
    if node.op == "stack":
        inner = (*shape[:axis], *shape[axis + 1 :])
        single = (*shape[:axis], 1, *shape[axis + 1 :])
        return _joined([Elements(single, arg.spread_to(inner).numbers) for arg in args], axis, shape)
    if node.op == "narrow":
        return _narrowed(args[0], axis, node, shape)
    if node.op == "select":
        return _selected(args[0], axis, node, shape)
    if node.op in ("max", "min") and len(args) == 1:
        return _reduced(args[0], axis, max if node.op == "max" else min, shape)
    rule = _RULES[node.op]
    columns = [arg.spread_to(shape).numbers for arg in args]
    rows = zip(*columns, strict=True)
    return Elements(shape, [math.nan if any(map(math.isnan, row)) else rule(*row) for row in rows])


def _indexed(whole: Elements, items: Iterable[object], shape: tuple[int, ...]) -> Elements:
    """The elements at fixed positions along some axes, and all of the others."""
    places, axis = [0], 0
    for item in items:
        if isinstance(item, NewAxis):
            continue
        size = whole.shape[axis]
        at: Any = item.index.static if isinstance(item, At) else None
        if isinstance(item, At) and not isinstance(at, int):
            raise ValueError("nobody knows where the elements stand")
        taken: Any = [at % size] if isinstance(item, At) else range(size)
        if isinstance(item, Cut):
            start, stop, step = item.start, item.stop, item.step
            taken = range(*slice(start, stop, step).indices(size))
        places = [place * size + one for place in places for one in taken]
        axis += 1
    return Elements(shape, [whole.numbers[place] for place in places])


def _places(shape: Sequence[int], strides: Iterable[int]) -> list[int]:
    """Where each element of a shape stands, if a step along each axis is a stride."""
    order = [0]
    for size, stride in zip(shape, strides, strict=True):
        order = [start + index * stride for start in order for index in range(size)]
    return order


def _whole(item: object) -> bool:
    """Whether an index takes all there is, in its order."""
    return isinstance(item, NewAxis) or (isinstance(item, Cut) and item.start in (0, None) and item.step == 1)


def _joined(parts: Sequence[Elements], axis: int, shape: tuple[int, ...]) -> Elements:
    lengths = [math.prod(part.shape[axis:]) for part in parts]
    rows = math.prod(shape[:axis])
    numbers = [
        number
        for row in range(rows)
        for part, length in zip(parts, lengths, strict=True)
        for number in part.numbers[row * length : (row + 1) * length]
    ]
    return Elements(shape, numbers)


def _narrowed(whole: Elements, axis: int, node: Typed, shape: tuple[int, ...]) -> Elements:
    start: Any = node.options["start"]
    first = start.interval.known_size
    if not isinstance(first, int):
        raise ValueError("nobody knows where the elements begin")
    inner = math.prod(shape[axis + 1 :])
    length = whole.shape[axis] * inner
    rows = range(math.prod(shape[:axis]))
    kept = [
        number
        for row in rows
        for number in whole.numbers[
            row * length + first * inner : row * length + (first + shape[axis]) * inner
        ]
    ]
    return Elements(shape, kept)


def _selected(whole: Elements, axis: int, node: Typed, shape: tuple[int, ...]) -> Elements:
    index: Any = node.options["index"]
    if not isinstance(index.static, int):
        raise ValueError("nobody knows where the elements stand")
    inner = math.prod(shape[axis:])
    length = whole.shape[axis] * inner
    starts = [row * length + index.static * inner for row in range(math.prod(shape[:axis]))]
    return Elements(shape, [number for start in starts for number in whole.numbers[start : start + inner]])


def _reduced(
    whole: Elements, axes: Any, choose: Callable[[Iterable[float]], float], shape: tuple[int, ...]
) -> Elements:
    taken = range(len(whole.shape)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    found: dict[tuple[int, ...], list[float]] = {}
    for index, number in zip(product(*map(range, whole.shape)), whole.numbers, strict=True):
        kept = tuple(at for axis, at in enumerate(index) if axis not in taken)
        found.setdefault(kept, []).append(number)
    return Elements(shape, [choose(numbers) for numbers in found.values()])


def _rounded(found: Elements, node: Typed) -> Elements:
    if is_int(node.type.dtype) and not all(float(number).is_integer() for number in found.numbers):
        raise ArithmeticError("a fraction for a whole number")
    if node.type.dtype != "float32" or node.type.python:
        return found
    return Elements(found.shape, [rounded(number) for number in found.numbers])


def rounded(number: float) -> float:
    """The nearest number of float32."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


_RULES: Final[Mapping[str, Callable[..., float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "where": lambda flag, then, otherwise: then if flag else otherwise,
    "max": max,
    "min": min,
    "clip": lambda x, low, high: min(max(x, low), high),
    "sign": lambda x: (x > 0) - (x < 0),
}
