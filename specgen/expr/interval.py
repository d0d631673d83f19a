"""Intervals: what values an expression can take, rounded outward to the dtype that stores them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable

from specgen.expr.dtypes import INT_RANGES
from specgen.expr.sizes import Dim, Sym, at_most, limits
from specgen.values import dataclass

_LARGEST_PRODUCT = 2**62
"""No memory holds more numbers."""


@dataclass(frozen=True, slots=True)
class Interval:
    """All values between `low` and `high`, both included, and NaN when `nan` is set.

    It always holds every value that can occur; it may hold more.

    Attributes:
        low: The smallest value.
        high: The largest.
        nan: Whether NaN is possible, too.
        size: The named size that every value is, as that of a dimension.
        below: A named size that every value is less than, as an index of a dimension is.
    """

    low: float
    high: float
    nan: bool = False
    size: Sym | None = None
    below: Sym | None = None

    @classmethod
    def of_size(cls, size: Dim) -> Interval:
        """The number that a size is; a product of sizes is no larger than what an int64 can hold."""
        low, high = limits(size)
        return cls(low, min(high, _LARGEST_PRODUCT), size=size if isinstance(size, Sym) else None)

    @classmethod
    def indices(cls, size: Dim) -> Interval:
        """The numbers from 0 up to a size, without it: the indices of a dimension."""
        return cls(0, limits(size)[1] - 1, below=size if isinstance(size, Sym) else None)

    @property
    def known_size(self) -> Dim | None:
        """The size that every value is: a number or one with a name; None where values differ."""
        if self.size is not None:
            return self.size
        return int(self.low) if self.fixed and math.isfinite(self.low) and self.low == int(self.low) else None

    def index_of(self, size: Dim) -> bool:
        """Whether every value is at least 0 and less than `size`."""
        return self.low >= 0 and self.less_than(size)

    def less_than(self, size: Dim) -> bool:
        """Whether every value is less than `size`."""
        if self.high < limits(size)[0]:
            return True
        if self.size is not None and at_most(self.size + 1, size):
            return True
        return self.below is not None and at_most(self.below, size)

    @property
    def top(self) -> Dim | None:
        """A size that no value is larger than: one with a name where one is known; None where values have no end."""
        if self.size is not None:
            return self.size
        if self.below is not None:
            return self.below - 1
        return math.floor(self.high) if math.isfinite(self.high) and not self.nan else None

    @property
    def fixed(self) -> bool:
        """Whether only one value is possible."""
        return self.low == self.high and not self.nan

    @property
    def bounded(self) -> bool:
        """Whether neither end is infinite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def contains(self, value: float) -> bool:
        """Whether `value` lies between the ends."""
        return self.low <= value <= self.high

    def within(self, other: Interval) -> bool:
        """Whether every number of this interval lies in `other`."""
        return other.low <= self.low and self.high <= other.high

    def disjoint(self, other: Interval) -> bool:
        """Whether no number lies in both."""
        return self.high < other.low or other.high < self.low

    def hull(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        same = (self.size, self.below) == (other.size, other.below)
        return Interval(
            min(self.low, other.low),
            max(self.high, other.high),
            self.nan or other.nan,
            self.size if same else None,
            self.below if same else bound_of_all((self, other)),
        )

    def with_nan(self, nan: bool) -> Interval:
        """The same numbers, with NaN as given."""
        return Interval(self.low, self.high, nan)


ANYTHING = Interval(-math.inf, math.inf, True)
NUMBERS = Interval(-math.inf, math.inf)
BOOLS = Interval(0, 1)


def full(dtype: str) -> Interval:
    """Everything that `dtype` can hold; NaN for floats."""
    if dtype in INT_RANGES:
        return Interval(*INT_RANGES[dtype])
    return BOOLS if dtype == "bool" else ANYTHING


def point(value: float) -> Interval:
    """The interval of one value."""
    return Interval(0, 0, True) if math.isnan(value) else Interval(value, value)


def bound(size: Dim | None) -> Sym | None:
    """The named size that all numbers up to `size` are less than."""
    more = None if size is None else size + 1
    return more if isinstance(more, Sym) else None


def bound_of_all(values: Iterable[Interval]) -> Sym | None:
    """A named size that all values of all intervals are less than, where one is known."""
    values = tuple(values)
    for each in values:
        if isinstance(each.top, Sym):
            # Numbers are less than `n` from its smallest on: for `n - 1`, which can be 0, that is `n`.
            missing = max(0, *(one.high - each.top.low for one in values if not isinstance(one.top, Sym)), 0)
            largest = each.top + int(missing) if math.isfinite(missing) else None
            below = bound(largest)
            if below is not None and all(one.less_than(below) for one in values):
                return below
    return None


def of_values(low: float, high: float, nan: bool = False) -> Interval:
    """`[low, high]`, or everything when an end could not be computed (it is NaN)."""
    if math.isnan(low) or math.isnan(high):
        return ANYTHING
    return Interval(low, high, nan)


def store(interval: Interval, dtype: str) -> Interval:
    """The interval after the value was rounded to `dtype` (integers that overflow wrap: anything)."""
    if dtype in INT_RANGES:
        low, high = INT_RANGES[dtype]
        if interval.nan or interval.low < low or interval.high > high:
            return Interval(low, high)
        return interval
    if dtype == "float32" and (interval.low > -math.inf or interval.high < math.inf):
        return Interval(_round32(interval.low, down=True), _round32(interval.high, down=False), interval.nan)
    return interval


def precision(dtype: str) -> float:
    """How far a function of `dtype` may be off, relative to its value: a few units in the last place."""
    return 1e-6 if dtype != "float64" else 1e-14


def loose(
    interval: Interval,
    dtype: str,
    floor: float = -math.inf,
    ceiling: float = math.inf,
    operations: int = 1,
) -> Interval:
    """The interval of a function that is only accurate to the last few digits of `dtype`.

    Exactly rounded operations do not need it: rounding is monotone, so the rounded ends bound the
    rounded values. `floor` and `ceiling` are values that the function never leaves; `operations` is how
    many roundings one result went through.
    """
    slack = precision(dtype) * max(1.0, operations / 16)
    low = interval.low - abs(interval.low) * slack
    high = interval.high + abs(interval.high) * slack
    low = interval.low if math.isinf(interval.low) else low
    high = interval.high if math.isinf(interval.high) else high
    return Interval(max(low, floor), min(high, ceiling), interval.nan)


def monotone(function: Callable[[float], float], x: Interval, nan: bool = False) -> Interval:
    """The image of `x` under a function that never falls."""
    return of_values(_attempt(function, x.low), _attempt(function, x.high), x.nan or nan)


def _attempt(function: Callable[[float], float], value: float) -> float:
    try:
        return float(function(value))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _round32(value: float, *, down: bool) -> float:
    if math.isinf(value) or math.isnan(value):
        return value
    try:
        near: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        near = math.copysign(math.inf, value)
    if near == value or (near < value) == down:
        # A value beyond the largest float32 is stored as infinity: both ends must allow it.
        return near
    return _next32(near, -1 if down else 1)


def _next32(value: float, direction: int) -> float:
    if math.isinf(value):
        largest: float = struct.unpack("<f", struct.pack("<I", 0x7F7FFFFF))[0]
        return math.copysign(largest, value)
    if value == 0:
        tiny: float = struct.unpack("<f", struct.pack("<I", 1))[0]
        return direction * tiny
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    step = direction if value > 0 else -direction
    moved: float = struct.unpack("<f", struct.pack("<i", bits + step))[0]
    return moved
