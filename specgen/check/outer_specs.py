"""Derives the spec of what a policy writes from the spec of what the environment takes in its place, in a chain."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from specgen.check.model import Statement
from specgen.check.transform_images import image_of
from specgen.expr import SpecType, Type, Typed
from specgen.expr.dtypes import is_int
from specgen.expr.spec_limits import Bound
from specgen.expr.spec_types import flatten

_COUNTED = ("categorical", "onehot", "multi_categorical", "multi_onehot")
_SAME_ORDER = frozenset(("flatten", "unflatten", "squeeze", "unsqueeze", "reshape", "cast", "store"))

Constants = Mapping[str, Any]
"""Numbers, or nested lists of numbers, by the path of the symbol that stands for them."""


class ClassesJoinedError(Exception):
    """One-hot vectors, or choices, would be torn apart or joined."""


@dataclass(frozen=True)
class Way:
    """An expression on the way between a policy and the environment.

    Attributes:
        statement: the expression.
        before: the statements of its local values.
        inwards: whether it is what the environment takes.
    """

    statement: Statement
    before: tuple[Statement, ...]
    inwards: bool = False

    @property
    def image(self) -> str:
        """How its values follow from those that it reads."""
        return image_of(self.statement.typed, self.before, wraps=not self.inwards)


def followed(
    taken: SpecType,
    type_: Type,
    outwards: Way | None,
    inwards: Way,
    constants: Constants,
) -> SpecType:
    """The spec of what a policy writes where the environment takes `taken`.

    Args:
        taken: what the environment takes.
        type_: the type of what the policy writes.
        outwards: what is like it, computed of what the environment takes; None for that itself.
        inwards: what the environment takes, computed of what the policy writes.
        constants: the values of parameters and bounds that are tensors, by the paths of their symbols.

    Raises:
        ClassesJoinedError: when one-hot vectors are torn apart or joined.
    """
    free = SpecType("unbounded", type_.dtype, type_.dims)
    if type_.dtype == "bool" and taken.kind not in _COUNTED:
        free = SpecType("binary", "bool", type_.dims)
    images = {way.image for way in (outwards, inwards) if way is not None}
    if "interval" in images:
        return free
    if "monotone" not in images:
        shape = taken.type().shape
        there = _Places(shape, list(range(math.prod(shape))))
        moved = there if outwards is None else _followed_places(outwards, there)
        back = None if moved is None else _followed_places(inwards, moved)
        if moved is None or back is None or back.order != there.order:
            return free
        return _moved(taken, type_, moved, free)
    return _between(taken, type_, outwards, inwards, constants) or free


# elements at other places


@dataclass(frozen=True)
class _Places:
    """Elements in another shape: for each the place at which it was."""

    shape: tuple[int, ...]
    order: list[int]


def _followed_places(way: Way, there: _Places) -> _Places | None:
    """Where elements go that an expression only takes; None where that is not known."""
    local = {one.symbol: one.typed for one in way.before}

    def follow(node: Typed) -> _Places | None:
        if node.op == "name":
            if node.symbol in local:
                return follow(local[node.symbol])
            return there
        inner = follow(node.args[0]) if node.args else None
        if inner is None:
            return None
        if node.op in _SAME_ORDER:
            return _Places(node.type.shape, inner.order)
        axes = node.options.get("axes")
        if node.op == "permute" and isinstance(axes, tuple) and all(isinstance(axis, int) for axis in axes):
            return _permuted(inner, axes)
        return None

    return follow(way.statement.typed)


def _permuted(places: _Places, axes: Sequence[int]) -> _Places:
    strides = [math.prod(places.shape[axis + 1 :]) for axis in range(len(places.shape))]
    shape = tuple(places.shape[axis] for axis in axes)
    order = [0]
    for axis in axes:
        order = [start + index * strides[axis] for start in order for index in range(places.shape[axis])]
    return _Places(shape, [places.order[place] for place in order])


def _moved(taken: SpecType, type_: Type, moved: _Places, free: SpecType) -> SpecType:
    """The spec of the elements of another at other places."""
    same = taken.dtype == type_.dtype
    if same and moved.shape == taken.type().shape and moved.order == sorted(moved.order):
        return taken
    if taken.kind in _COUNTED and same:
        return _moved_classes(taken, moved)
    if taken.kind != "bounded" and taken.kind not in _COUNTED:
        return free
    low, high = _ends(taken)
    least, most = (_nested([one[place] for place in moved.order], moved.shape) for one in (low, high))
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _moved_classes(taken: SpecType, moved: _Places) -> SpecType:
    if taken.kind == "categorical":
        return replace(taken, shape=moved.shape)
    width = taken.type().shape[-1]
    kept = moved.shape[-1:] == (width,)
    for start in range(0, len(moved.order), width):
        row = moved.order[start : start + width]
        kept = kept and row[0] % width == 0 and row == list(range(row[0], row[0] + width))
    if not kept:
        raise ClassesJoinedError
    return replace(taken, shape=moved.shape[:-1])


def _ends(spec: SpecType) -> tuple[list[float], list[float]]:
    """The bounds of a spec, element by element."""
    count = math.prod(spec.type().shape)
    if spec.low is None or spec.high is None:
        values = spec.interval
        return [values.low] * count, [values.high] * count
    found = []
    for end in (spec.low, spec.high):
        numbers = list(flatten(end))
        found.append(numbers if isinstance(end, tuple) else numbers * count)
    return found[0], found[1]


def _nested(numbers: Sequence[float], shape: tuple[int, ...]) -> Bound:
    """Numbers in the form of a bound: one where all are the same."""
    if len(set(numbers)) == 1:
        return numbers[0]
    if len(shape) == 1:
        return tuple(numbers)
    step = len(numbers) // shape[0]
    return tuple(_nested_whole(numbers[at : at + step], shape[1:]) for at in range(0, len(numbers), step))


def _nested_whole(numbers: Sequence[float], shape: tuple[int, ...]) -> Bound:
    if not shape:
        return numbers[0]
    step = len(numbers) // shape[0]
    return tuple(_nested_whole(numbers[at : at + step], shape[1:]) for at in range(0, len(numbers), step))


# values between other bounds


def _between(
    taken: SpecType, type_: Type, outwards: Way | None, inwards: Way, constants: Constants
) -> SpecType | None:
    """The spec of what rises or falls in each element; None where the two ways do not undo each other."""
    if taken.low is None and taken.kind not in _COUNTED:
        return None
    low, high = _ends(taken)
    if any(math.isinf(end) for end in (*low, *high)) or type_.dims != taken.type().shape:
        return None
    found: list[list[float]] = [[], []]
    for place, ends in enumerate(zip(low, high, strict=True)):
        index = _index(place, type_.shape)
        out = [end if outwards is None else _value(outwards, end, constants, index) for end in ends]
        known = sorted(end for end in out if end is not None)
        back = [_value(inwards, end, constants, index) for end in known]
        fitting = sorted(end for end in back if end is not None)
        if len(fitting) < len(ends) or not all(map(_close, fitting, ends)):
            return None
        for side, end in zip(found, known, strict=True):
            side.append(int(end) if is_int(type_.dtype) else end)
    least, most = (_nested(side, type_.shape) for side in found)
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.insert(0, at)
    return tuple(index)


def _value(way: Way, value: float, constants: Constants, index: tuple[int, ...]) -> float | None:
    """What an expression is in one element, rounded as its dtype has it; None where that is not known."""
    local = {one.symbol: one.typed for one in way.before}

    def of(node: Typed) -> float | None:
        if node.static is not None and not isinstance(node.static, str):
            return node.static
        if node.op == "name":
            if node.symbol in local:
                return of(local[node.symbol])
            if node.symbol is not None and node.symbol.path in constants:
                return _element(constants[node.symbol.path], index)
            return value
        if node.op == "where" and isinstance(node.args[0].static, bool):
            return of(node.args[1 if node.args[0].static else 2])
        operands = [of(arg) for arg in node.args]
        known = [operand for operand in operands if operand is not None]
        rule = _RULES.get(node.op)
        if rule is None or len(known) < len(operands):
            return None
        try:
            result = rule(*known)
        except (ArithmeticError, TypeError):
            return None
        return _rounded(result, node.type)

    return of(way.statement.typed)


def _element(value: Any, index: tuple[int, ...]) -> float:
    """The element of nested lists that an index meets from the end; one number is all of them."""
    depth, inner = 0, value
    while isinstance(inner, list | tuple):
        depth, inner = depth + 1, inner[0]
    for at in index[len(index) - depth :] if depth else ():
        value = value[at] if len(value) > 1 else value[0]
    return float(value) if isinstance(value, float) else value


def _rounded(value: float, type_: Type) -> float:
    if type_.dtype == "float32" and not type_.python:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    return value


def _as_it_is(value: float) -> float:
    return value


_RULES: Final[Mapping[str, Callable[..., float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "cast": _as_it_is,
    "store": _as_it_is,
    "max": max,
    "min": min,
    "clip": lambda x, low, high: min(max(x, low), high),
    "sign": lambda x: (x > 0) - (x < 0),
    "full_like": lambda like, value: value,
}


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-5, abs_tol=1e-6)
