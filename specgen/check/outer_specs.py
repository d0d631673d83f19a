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


class KindsDifferError(Exception):
    """Choices among different classes would be put together."""


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
    taken: Mapping[str, SpecType],
    type_: Type,
    outwards: Way | None,
    inwards: Sequence[Way],
    constants: Constants,
) -> SpecType:
    """The spec of what a policy writes where the environment takes `taken`: one value, or several in whose place it stands.

    Args:
        taken: what the environment takes, by the names of the transform.
        type_: the type of what the policy writes.
        outwards: what is like it, computed of what the environment takes; None for that itself.
        inwards: what the environment takes, computed of what the policy writes: one for each of `taken`.
        constants: the values of parameters and bounds that are tensors, by the paths of their symbols.

    Raises:
        ClassesJoinedError: when one-hot vectors are torn apart or joined.
        KindsDifferError: when choices among different classes are put together.
    """
    free = SpecType("unbounded", type_.dtype, type_.dims)
    counted = any(spec.kind in _COUNTED for spec in taken.values())
    if type_.dtype == "bool" and not counted:
        free = SpecType("binary", "bool", type_.dims)
    images = {way.image for way in (outwards, *inwards) if way is not None}
    if "interval" in images:
        return free
    if "monotone" in images:
        return _between(taken, type_, outwards, inwards, constants) or free
    places = _numbered(taken)
    moved = _outwards(outwards, places, constants)
    back = [None if moved is None else followed_elements(way, moved, constants) for way in inwards]
    if moved is None or any(
        part is None or part.numbers != there.numbers
        for part, there in zip(back, places.values(), strict=True)
    ):
        return free
    return _moved(list(taken.values()), type_, moved.shape, list(map(int, moved.numbers)), free)


def _numbered(taken: Mapping[str, SpecType]) -> dict[str, Elements]:
    """A number for each element of some specs, counted on from one to the next."""
    found: dict[str, Elements] = {}
    start = 0
    for name, spec in taken.items():
        shape = spec.type().shape
        count = math.prod(shape)
        found[name] = Elements(shape, list(range(start, start + count)))
        start += count
    return found


def _outwards(way: Way | None, parts: Mapping[str, Elements], constants: Constants) -> Elements | None:
    """What is like what the policy writes, of elements of what the environment takes."""
    return next(iter(parts.values())) if way is None else followed_elements(way, parts, constants)


def followed_elements(
    way: Way, value: Elements | Mapping[str, Elements], constants: Constants
) -> Elements | None:
    """What an expression is for elements of what it reads, of several by name; None where that is not known."""
    known: dict[Symbol, Elements] = {}
    for statement in (*way.before, way.statement):
        for node in statement.typed.nodes:
            if node.op == "name" and node.symbol is not None and node.symbol not in known:
                held = constants.get(node.symbol.path)
                if held is not None:
                    known[node.symbol] = elements_of(held)
                elif isinstance(value, Elements):
                    known[node.symbol] = value
                elif (own := value.get(node.symbol.path.rpartition(".in.")[2])) is not None:
                    known[node.symbol] = own
    found = None
    for statement in (*way.before, way.statement):
        found = evaluated(statement.typed, known)
        known.pop(statement.symbol, None)
        if found is not None:
            known[statement.symbol] = found
    return found


def _moved(
    parts: Sequence[SpecType], type_: Type, shape: tuple[int, ...], order: list[int], free: SpecType
) -> SpecType:
    """The spec of the elements of others in another shape; `order` are the places at which they were."""
    taken = parts[0]
    same = taken.dtype == type_.dtype
    if len(parts) == 1 and same and shape == taken.type().shape and order == sorted(order):
        return taken
    if same and any(one.kind in _COUNTED for one in parts):
        if len({_kind(one) for one in parts}) > 1:
            raise KindsDifferError
        return _moved_classes(taken, shape, order)
    if same and all(one.kind == "binary" for one in parts):
        return SpecType("binary", type_.dtype, type_.dims)
    if all(one.kind != "bounded" and one.kind not in _COUNTED for one in parts):
        return free
    low, high = ([end for ends in map(ends_of, parts) for end in ends[side]] for side in (0, 1))
    least, most = (nested_bound([one[place] for place in order], shape) for one in (low, high))
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _kind(spec: SpecType) -> tuple[object, ...]:
    """How a spec is written, and among how many classes its choices are."""
    return spec.kind, spec.dtype, spec.n, spec.nvec


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
    taken: Mapping[str, SpecType],
    type_: Type,
    outwards: Way | None,
    inwards: Sequence[Way],
    constants: Constants,
) -> SpecType | None:
    """The spec of what rises or falls in each element; None where the two ways do not undo each other."""
    if any(spec.low is None and spec.kind not in _COUNTED for spec in taken.values()):
        return None
    boxes = {name: ends_of(spec) for name, spec in taken.items()}
    shapes = {name: spec.type().shape for name, spec in taken.items()}
    if any(math.isinf(end) for box in boxes.values() for ends in box for end in ends):
        return None
    if len(taken) == 1 and type_.dims not in shapes.values():
        return None
    sides = [{name: Elements(shapes[name], box[side]) for name, box in boxes.items()} for side in (0, 1)]
    out = [_outwards(outwards, side, constants) for side in sides]
    if out[0] is None or out[1] is None:
        return None
    pairs = [sorted(pair) for pair in zip(out[0].numbers, out[1].numbers, strict=True)]
    ends = [Elements(type_.shape, [pair[end] for pair in pairs]) for end in (0, 1)]
    for way, (low, high) in zip(inwards, boxes.values(), strict=True):
        back = [followed_elements(way, one, constants) for one in ends]
        if back[0] is None or back[1] is None:
            return None
        found = zip(back[0].numbers, back[1].numbers, strict=True)
        for wanted, pair in zip(zip(low, high, strict=True), found, strict=True):
            if not all(map(_close, sorted(pair), wanted)):
                return None
    whole = is_int(type_.dtype)
    least, most = (
        nested_bound([int(end) for end in one.numbers] if whole else one.numbers, type_.shape) for one in ends
    )
    return SpecType("bounded", type_.dtype, type_.dims, least, most)


def _close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-5, abs_tol=1e-6)
