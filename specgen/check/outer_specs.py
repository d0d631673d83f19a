"""Derives the spec of what a policy writes from the spec of what the environment takes in its place, in a chain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from specgen.check.elements import Elements, elements_of, evaluated
from specgen.check.model import Statement
from specgen.check.transforms.images import image_of
from specgen.expr import SpecType, Symbol, Type
from specgen.expr.dtypes import is_int
from specgen.expr.spec_limits import Bound
from specgen.expr.spec_types import flatten
from specgen.values import dataclass, replace

_COUNTED = ("categorical", "onehot", "multi_categorical", "multi_onehot")

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
        there = Elements(shape, list(range(math.prod(shape))))
        moved = there if outwards is None else followed_elements(outwards, there, constants)
        back = None if moved is None else followed_elements(inwards, moved, constants)
        if moved is None or back is None or back.numbers != there.numbers:
            return free
        return _moved(taken, type_, moved.shape, list(map(int, moved.numbers)), free)
    return _between(taken, type_, outwards, inwards, constants) or free


def followed_elements(way: Way, value: Elements, constants: Constants) -> Elements | None:
    """What an expression is for elements of what it reads; None where that is not known."""
    known: dict[Symbol, Elements] = {}
    for statement in (*way.before, way.statement):
        for node in statement.typed.nodes:
            if node.op == "name" and node.symbol is not None and node.symbol not in known:
                held = constants.get(node.symbol.path)
                known[node.symbol] = value if held is None else elements_of(held)
    found = None
    for statement in (*way.before, way.statement):
        found = evaluated(statement.typed, known)
        known.pop(statement.symbol, None)
        if found is not None:
            known[statement.symbol] = found
    return found


def _moved(
    taken: SpecType, type_: Type, shape: tuple[int, ...], order: list[int], free: SpecType
) -> SpecType:
    """The spec of the elements of another in another shape; `order` are the places at which they were."""
    same = taken.dtype == type_.dtype
    if same and shape == taken.type().shape and order == sorted(order):
        return taken
    if taken.kind in _COUNTED and same:
        return _moved_classes(taken, shape, order)
    if taken.kind != "bounded" and taken.kind not in _COUNTED:
        return free
    low, high = ends_of(taken)
    least, most = (nested_bound([one[place] for place in order], shape) for one in (low, high))
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _moved_classes(taken: SpecType, shape: tuple[int, ...], order: list[int]) -> SpecType:
    if taken.kind == "categorical":
        return replace(taken, shape=shape)
    width = taken.type().shape[-1]
    kept = shape[-1:] == (width,)
    for start in range(0, len(order), width):
        row = order[start : start + width]
        kept = kept and row[0] % width == 0 and row == list(range(row[0], row[0] + width))
    if not kept:
        raise ClassesJoinedError
    return replace(taken, shape=shape[:-1])


def ends_of(spec: SpecType) -> tuple[list[float], list[float]]:
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


def nested_bound(numbers: Sequence[float], shape: tuple[int, ...]) -> Bound:
    """Numbers in the form of a bound: one where all are the same."""
    if len(set(numbers)) == 1 or not shape:
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
    low, high = ends_of(taken)
    if any(math.isinf(end) for end in (*low, *high)) or type_.dims != taken.type().shape:
        return None
    taken_ends = [Elements(type_.shape, end) for end in (low, high)]
    out = [one if outwards is None else followed_elements(outwards, one, constants) for one in taken_ends]
    if out[0] is None or out[1] is None:
        return None
    pairs = [sorted(pair) for pair in zip(out[0].numbers, out[1].numbers, strict=True)]
    sides = [Elements(type_.shape, [pair[end] for pair in pairs]) for end in (0, 1)]
    back = [followed_elements(inwards, one, constants) for one in sides]
    if back[0] is None or back[1] is None:
        return None
    for ends, pair in zip(
        zip(low, high, strict=True), zip(back[0].numbers, back[1].numbers, strict=True), strict=True
    ):
        if not all(map(_close, sorted(pair), ends)):
            return None
    whole = is_int(type_.dtype)
    least, most = (
        nested_bound([int(end) for end in one.numbers] if whole else one.numbers, type_.shape)
        for one in sides
    )
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-5, abs_tol=1e-6)
