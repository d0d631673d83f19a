"""What makes a spec impossible: bounds, classes and sizes that no spec object could have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from specgen.expr.dtypes import FLOAT_RANGES, INT_RANGES, holds

Bound = int | float | tuple["Bound", ...]

MAX_ELEMENTS: Final = 2**40
"""More numbers than one value of a key can have on any machine; torch counts them in 64 bits."""

_MAX_CLASSES: Final = 2**63 - 1
_EXACT_UP_TO: Final = {"bool": 1, "float32": 2**24, "float64": 2**53}


def flatten(bound: Bound) -> Iterator[int | float]:
    """All numbers of a bound."""
    if isinstance(bound, tuple):
        for item in bound:
            yield from flatten(item)
    else:
        yield bound


def has_shape(bound: Bound, shape: Sequence[int]) -> bool:
    """Whether nested bounds have exactly this shape."""
    if not isinstance(bound, tuple):
        return not shape
    return bool(shape) and len(bound) == shape[0] and all(has_shape(item, shape[1:]) for item in bound)


def number_fault(value: int | float, dtype: str) -> str | None:
    """Why `value` can't be a bound of `dtype`, or None."""
    if dtype in INT_RANGES:
        low, high = INT_RANGES[dtype]
        if math.isinf(value):
            return f"{value} is outside {dtype} [{low}, {high}]; leave the domain out"
        if isinstance(value, float) and value != int(value):
            return f"{value} is not a whole number and {dtype} holds only those"
        if not low <= value <= high:
            return f"{value} is outside {dtype} [{low}, {high}]"
    elif dtype in FLOAT_RANGES and not holds(dtype, value):
        return f"{value} is outside {dtype}"
    return None


def domain_fault(low: Bound, high: Bound) -> tuple[str, str] | None:
    """Why no value is between two bounds and what to write instead, or None."""
    lows, highs = list(flatten(low)), list(flatten(high))
    count = max(len(lows), len(highs))
    lows = lows * count if len(lows) == 1 else lows
    highs = highs * count if len(highs) == 1 else highs
    for index, (a, b) in enumerate(zip(lows, highs, strict=True)):
        where = f" at element {index}" if count > 1 else ""
        if a > b:
            return f"empty domain{where}: low {a} > high {b}", (
                f"write [{b}, {a}]" if count == 1 else "swap the bounds"
            )
        if a == math.inf or b == -math.inf:
            return f"empty domain{where}: no number is in [{a}, {b}]", "a bound on one side is [-inf, 1]"
    return None


def classes_fault(counts: Sequence[int], dtype: str) -> str | None:
    """Why `dtype` can't hold the numbers of that many classes, or None."""
    if sum(counts) > _MAX_CLASSES:
        return f"{sum(counts)} classes are more than torch can count"
    largest = INT_RANGES[dtype][1] if dtype in INT_RANGES else _EXACT_UP_TO[dtype]
    for count in counts:
        if count - 1 > largest:
            return f"{dtype} can't hold {count} classes: its largest is {largest}"
    return None
