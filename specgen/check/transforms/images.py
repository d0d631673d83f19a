"""How the values of an output follow from those of its roles: what bounds of the inputs say of the result's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Statement
from specgen.check.transforms.entries import Image, role_of
from specgen.expr import Interval, Symbol, Typed
from specgen.expr.builtins.images import is_between
from specgen.expr.dtypes import INT_RANGES, is_abstract, is_float, is_int

_STRUCTURAL = frozenset(
    (
        "concat",
        "stack",
        "tile",
        "narrow",
        "select",
        "permute",
        "transpose",
        "flatten",
        "unflatten",
        "reshape",
        "squeeze",
    )
) | frozenset(("unsqueeze", "crop", "flip", "roll", "store", "full_like", "zeros_like", "ones_like"))
"""Functions whose results are elements of their operands, or constants."""

_RISING = frozenset(
    ("clip", "max", "min", "tanh", "exp", "log", "sqrt", "atan", "floor", "ceil", "round", "sign", "sigmoid")
) | frozenset(("relu", "softplus", "trunc", "cumsum", "asinh", "sinh", "log1p", "expm1", "erf"))
"""Functions that rise in each element that they take."""

_SUMS = frozenset(("sum", "mean", "min", "max", "cumsum"))
"""Functions that mix the elements of one operand: all of them have to rise, or all to fall."""

Directions = Mapping[str, int]
"""The values that an expression rises in (1), falls in (-1), or does either, element by element (0).

What `x` and `next.x` are between are the same bounds, of which both are taken to be at the same end: they count as one.
"""


class _NotMonotoneError(Exception):
    """An expression neither rises nor falls, or nothing says that it does."""


def image_of(typed: Typed, before: Iterable[Statement], *, wraps: bool = True) -> Image:
    """How the values of `typed` follow from those that it reads; `before` are the statements of its local values.

    Where nothing `wraps`, integers hold all that is cast to them, as those do that an environment takes.
    """
    local = {statement.symbol: statement.typed for statement in before}
    if entry_itself(typed, local) is not None:
        return "same"
    reader = _Reader(local, wraps)
    try:
        reader.directions(typed)
    except _NotMonotoneError:
        return "interval"
    found: Image = "structural" if reader.structural else "monotone"
    return found


def entry_itself(typed: Typed, local: Mapping[Symbol, Typed]) -> Symbol | None:
    """The entry that a value is, directly or by way of `local` ones; None for what is computed, and for a parameter."""
    whole = typed
    while whole.op == "name" and whole.symbol is not None and whole.symbol in local:
        whole = local[whole.symbol]
    return whole.symbol if whole.op == "name" and whole.type.level == "batch" else None


def joined(images: Iterable[Image]) -> Image:
    """How values follow that are sometimes those of one expression and sometimes those of another."""
    listed = list(images)
    if not listed or "interval" in listed:
        return "interval"
    return "monotone" if "monotone" in listed else "structural"


class _Reader:
    def __init__(self, local: Mapping[Symbol, Typed], wraps: bool) -> None:
        self.local = local
        self.wraps = wraps
        self.structural = True

    def directions(self, node: Typed) -> Directions:
        """The values that `node` depends on; raises where it neither rises nor falls in one of them."""
        if node.type.level != "batch" or node.static is not None:
            return {}
        if node.op == "name":
            assert node.symbol is not None
            if node.symbol in self.local:
                return self.directions(self.local[node.symbol])
            return {role_of(node.symbol): 1}
        if node.op == "cast":
            if self.wraps and _may_wrap(node):
                raise _NotMonotoneError
            exact = is_float(node.type.dtype) or node.args[0].type.dtype == "bool"
            self.structural = self.structural and exact
            return self.directions(node.args[0])
        if node.op == "[]" and not any(part.type.level == "batch" for part in node.parts[1:]):
            return self.directions(node.args[0])
        if node.op in _STRUCTURAL:
            shaped = node.args[1:] if node.op.endswith("_like") else node.args
            return self._beside(map(self.directions, shaped))
        if node.op == "where" and node.args[0].type.python:
            return self._beside(map(self.directions, node.args[1:]))
        self.structural = False
        if node.op == "where" and (flag := self._flag(node.args[0])) is not None:
            return {**self._beside(map(self.directions, node.args[1:])), role_of(flag): 0}
        if node.op in ("+", "-", "*", "/", "neg"):
            return self._arithmetic(node)
        if node.op in _RISING or node.op in _SUMS:
            return self._rising(node)
        if node.op == "resize" and is_between(node):
            return self.directions(node.args[0])
        raise _NotMonotoneError

    def _flag(self, condition: Typed) -> Symbol | None:
        """The truth value that a condition is, which is tried at both of its ends."""
        return None if condition.op != "name" or condition.symbol in self.local else condition.symbol

    def _arithmetic(self, node: Typed) -> Directions:
        if is_int(node.type.dtype) or (is_abstract(node.type.dtype) and node.type.dtype != "float"):
            raise _NotMonotoneError  # integers wrap around
        found = [self.directions(arg) for arg in node.args]
        match node.op, found:
            case "neg", [only]:
                return _turned(only, -1)
            case "+", [left, right]:
                return _together(left, right)
            case "-", [left, right]:
                return _together(left, _turned(right, -1))
            case "*", [left, right] if not left or not right:
                factor = node.args[1 if not right else 0]
                return _turned(left or right, _sign(factor))
            case "/", [left, right] if not right:
                return _turned(left, _sign(node.args[1]))
        raise _NotMonotoneError

    def _rising(self, node: Typed) -> Directions:
        first, *others = [self.directions(arg) for arg in node.args]
        if node.op == "clip" and any(others):
            raise _NotMonotoneError
        if node.op in _SUMS and len(node.args) == 1 and 0 in first.values():
            raise _NotMonotoneError
        for other in others:
            first = _together(first, other)
        return first

    def _beside(self, several: Iterable[Directions]) -> Directions:
        """Of expressions of which each element is taken from one."""
        made: dict[str, int] = {}
        for one in several:
            for symbol, direction in one.items():
                made[symbol] = direction if made.get(symbol, direction) == direction else 0
        return made


def _may_wrap(cast: Typed) -> bool:
    """Whether a cast may take numbers that its dtype does not hold: integers wrap around."""
    fits, wanted = INT_RANGES.get(cast.type.dtype), cast.options.get("dtype")
    if isinstance(wanted, Typed) and wanted.type.dtype == "str":
        return cast.type.dtype == "number"
    return fits is not None and not cast.args[0].interval.within(Interval(*fits))


def _together(left: Directions, right: Directions) -> Directions:
    """Of a sum of two, each of which may depend on the same values."""
    for symbol in left.keys() & right.keys():
        if left[symbol] != right[symbol] or left[symbol] == 0:
            raise _NotMonotoneError
    return {**left, **right}


def _turned(directions: Directions, sign: int) -> Directions:
    return {symbol: sign * direction for symbol, direction in directions.items()}


def _sign(factor: Typed) -> int:
    """1 or -1 for what is never below or never above 0; 0 for what may be either."""
    if factor.interval.low >= 0:
        return 1
    return -1 if factor.interval.high <= 0 else 0
