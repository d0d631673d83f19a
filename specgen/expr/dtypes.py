"""The dtypes of the language: their order, their ranges and how two of them join."""

from __future__ import annotations

import math
from typing import Final

INT_RANGES: Final[dict[str, tuple[int, int]]] = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
FLOAT_RANGES: Final[dict[str, float]] = {
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
CONCRETE: Final[tuple[str, ...]] = ("bool", *INT_RANGES, *FLOAT_RANGES)
ABSTRACT: Final[tuple[str, ...]] = ("float", "number", "any")
"""Dtypes of patterns (`float[...]`): known only when a dynamic transform is constructed."""
COMPUTE: Final = "float32"
"""The dtype of arithmetic that leaves the integers: `/`, `mean` and `sqrt` of ints."""
OPAQUE: Final[tuple[str, ...]] = ("str", "list", "distribution", "record", "callable")
"""What is no number, and has no dtype in common with one."""

_INT_ORDER: Final = tuple(INT_RANGES)


def is_float(dtype: str) -> bool:
    """Whether every value of `dtype` is a floating-point number."""
    return dtype in FLOAT_RANGES or dtype == "float"


def is_int(dtype: str) -> bool:
    """Whether `dtype` is an integer dtype (bool is not)."""
    return dtype in INT_RANGES


def is_number(dtype: str) -> bool:
    """Whether arithmetic is defined on `dtype`: ints, floats and the patterns of numbers."""
    return is_int(dtype) or is_float(dtype) or dtype == "number"


def is_abstract(dtype: str) -> bool:
    """Whether `dtype` is a pattern that several dtypes match."""
    return dtype in ABSTRACT


def join(a: str, b: str) -> str | None:
    """The dtype that holds both, in the order bool < int < float32 < float64; None if there is none.

    Patterns join like this: with float64 they are float64, which holds every number; `float` with anything else
    stays `float`, `number` with an integer `number`. With float32 both are `float`: what is bound may be float64.
    """
    if a == b:
        return a
    if "any" in (a, b) or a in OPAQUE or b in OPAQUE:
        return None
    if is_abstract(a) or is_abstract(b):
        return _join_abstract(a, b)
    if is_float(a) or is_float(b):
        return "float64" if "float64" in (a, b) else "float32"
    if a == "bool":
        return b
    if b == "bool":
        return a
    if {a, b} == {"uint8", "int8"}:
        return "int16"
    return max(a, b, key=_INT_ORDER.index)


def _join_abstract(a: str, b: str) -> str:
    abstract, other = (a, b) if is_abstract(a) else (b, a)
    if other == "float64":
        return other
    return "float" if is_float(abstract) or is_float(other) else abstract


def weak_join(strong: str, weak: str) -> str | None:
    """The dtype of a tensor of `strong` with a number written in the text or passed to a constructor.

    A number does not widen a tensor of its own kind (`uint8 + 1` is uint8); a number of a higher
    kind moves to that kind (`int64 + 0.5` is float32). A parameter declared float64 is strong.
    """
    if weak == "float64":
        return join(strong, "float64")
    if strong in (*OPAQUE, "any") or weak in OPAQUE:
        return strong if strong == weak else None
    if is_float(weak):
        if strong in ("float", "number"):
            return "float"
        return strong if is_float(strong) else COMPUTE
    if is_int(weak):
        return "int64" if strong == "bool" else strong
    return strong


def holds(dtype: str, value: float) -> bool:
    """Whether `value` lies in the range of `dtype` (infinities are in every float dtype)."""
    if dtype in INT_RANGES:
        low, high = INT_RANGES[dtype]
        return low <= value <= high
    if dtype == "bool":
        return value in (0, 1)
    if dtype in FLOAT_RANGES:
        return math.isinf(value) or math.isnan(value) or abs(value) <= FLOAT_RANGES[dtype]
    return True
