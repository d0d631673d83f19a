"""Interval rules: from the values of the operands to the values of the result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from itertools import product

from specgen.expr.builtins.record import IntervalRule
from specgen.expr.dtypes import FLOAT_RANGES, INT_RANGES, is_int
from specgen.expr.interval import (
    ANYTHING,
    BOOLS,
    Interval,
    bound,
    bound_of_all,
    full,
    loose,
    monotone,
    of_values,
)
from specgen.expr.sizes import Dim, Sym, at_most, divided, limits, quotient
from specgen.expr.types import Typed
from specgen.values import replace

Ranges = tuple[Interval, ...]


def same(args: Ranges, node: Typed) -> Interval:
    """The values of the first operand."""
    return args[0]


def hull(args: Ranges, node: Typed) -> Interval:
    """The values of all operands."""
    joined = args[0]
    for arg in args[1:]:
        joined = joined.hull(arg)
    return joined


def truth(args: Ranges, node: Typed) -> Interval:
    """False or true."""
    return BOOLS


def _nan(args: Ranges) -> bool:
    return any(arg.nan for arg in args)


def add(args: Ranges, node: Typed) -> Interval:
    """`a + b`; infinities of opposite sign give NaN."""
    a, b = args
    if (size := _of_sizes(a, b, operator.add)) is not None:
        return size
    clash = (a.high == math.inf and b.low == -math.inf) or (a.low == -math.inf and b.high == math.inf)
    values = of_values(a.low + b.low, a.high + b.high, _nan(args) or clash)
    return _up_to(values, _of_tops(a, b, operator.add))


def negate(args: Ranges, node: Typed) -> Interval:
    """`-a`."""
    if args[0].size is not None:
        return Interval.of_size(-args[0].size)
    return Interval(-args[0].high, -args[0].low, args[0].nan)


def subtract(args: Ranges, node: Typed) -> Interval:
    """`a - b`; zero where both are the same expression."""
    if len(node.args) == 2 and _alike(*node.args):
        return Interval(0, 0, args[0].nan or not args[0].bounded)
    a, b = args
    values = add((a, negate((b,), node)), node)
    if values.size is not None or not is_int(node.type.dtype):
        return values
    if a.size is not None and b.top is not None:
        values = replace(values, low=max(values.low, limits(a.size - b.top)[0]))
    if math.isfinite(b.low) and isinstance(a.top, Sym):
        values = _up_to(values, a.top - int(b.low))
    return values


def _of_tops(a: Interval, b: Interval, combined: Callable[[Dim, Dim], Dim]) -> Dim | None:
    """What the largest values of two intervals give together, where one of them has a name."""
    named = isinstance(a.top, Sym) or isinstance(b.top, Sym)
    return combined(a.top, b.top) if named and a.top is not None and b.top is not None else None


def _up_to(values: Interval, top: Dim | None) -> Interval:
    """The values, which are at most `top`."""
    below = bound(top)
    return values if below is None else replace(values, below=below)


def _of_sizes(a: Interval, b: Interval, combined: Callable[[Dim, Dim], Dim | None]) -> Interval | None:
    """What two sizes give together, of which one at least has a name; None where that is no size."""
    if a.size is None and b.size is None:
        return None
    one, two = a.known_size, b.known_size
    size = None if one is None or two is None else combined(one, two)
    return None if size is None else Interval.of_size(size)


def _alike(a: Typed, b: Typed) -> bool:
    """Whether two nodes are the same expression, and so the same number; each draw has a name of its own."""
    named = (a.op, a.text, a.static, a.function, a.site) == (b.op, b.text, b.static, b.function, b.site)
    return (
        named
        and not a.items
        and not b.items
        and a.type == b.type
        and a.options == b.options
        and len(a.args) == len(b.args)
        and all(map(_alike, a.args, b.args))
    )


def multiply(args: Ranges, node: Typed) -> Interval:
    """`a * b`; zero times infinity gives NaN."""
    a, b = args
    if (size := _of_sizes(a, b, operator.mul)) is not None:
        return size
    clash = (a.contains(0) and not b.bounded) or (b.contains(0) and not a.bounded)
    ends = [0 if 0 in (x, y) else x * y for x, y in product((a.low, a.high), (b.low, b.high))]
    values = of_values(min(ends), max(ends), _nan(args) or clash)
    return _up_to(values, _of_tops(a, b, operator.mul) if min(a.low, b.low) >= 0 else None)


def divide(args: Ranges, node: Typed) -> Interval:
    """`a / b`; anything when `b` can be zero."""
    a, b = args
    if b.contains(0):
        return ANYTHING
    clash = not a.bounded and not b.bounded
    ends = [
        0.0 if math.isinf(y) else math.copysign(math.inf, x) * math.copysign(1, y) if math.isinf(x) else x / y
        for x, y in product((a.low, a.high), (b.low, b.high))
    ]
    return of_values(min(ends), max(ends), _nan(args) or clash)


def floor_divide(args: Ranges, node: Typed) -> Interval:
    """`a // b`."""
    a, b = args
    if b.contains(0):
        return full(node.type.dtype)
    if (size := _of_sizes(a, b, quotient)) is not None:
        return _up_to(size, _top_of_quotient(a, b))
    if a.bounded and b.bounded and is_int(node.type.dtype):
        ends = [x // y for x, y in product((a.low, a.high), (b.low, b.high))]
        return _up_to(Interval(min(ends), max(ends)), _top_of_quotient(a, b))
    return monotone(_floor, loose(divide(args, node), node.type.dtype))


def _top_of_quotient(a: Interval, b: Interval) -> Dim | None:
    """What no value of `a // b` is larger than, from the named size that `a` has or is less than."""
    if not isinstance(a.top, Sym) or a.low < 0 or b.low < 1:
        return None
    exact = divided(a.top, int(b.low))
    if exact is not None:
        return exact
    return a.top - 1 if a.low >= 1 and b.low >= 2 else a.top


def remainder(args: Ranges, node: Typed) -> Interval:
    """`a % b`, of the sign of `b`; for floats it can be `b` itself, by rounding."""
    a, b = args
    if b.contains(0):
        return full(node.type.dtype)
    nan = _nan(args) or not a.bounded
    if a.low >= 0 and a.high < b.low:
        return replace(a, nan=nan)
    last = 1 if is_int(node.type.dtype) else 0
    if last and b.size is not None:
        return Interval.indices(b.size)
    if a.low >= 0 and b.low > 0:
        return _up_to(Interval(0, b.high - last, nan), a.top)
    return Interval(0, b.high - last, nan) if b.low > 0 else Interval(b.low + last, 0, nan)


def power(args: Ranges, node: Typed) -> Interval:
    """`a ** b`; known for whole exponents and for bases above zero."""
    a, b = args
    nan = _nan(args)
    try:
        if b.fixed and b.low == int(b.low) and 0 <= b.low <= 64:
            return _whole_power(a, int(b.low), nan, node)
        if a.low > 0:
            ends = [float(x) ** float(y) for x, y in product((a.low, a.high), (b.low, b.high))]
            return loose(of_values(min(ends), max(ends), nan), node.type.dtype, floor=0.0)
    except (OverflowError, ValueError):
        pass
    return full(node.type.dtype)


def _whole_power(a: Interval, exponent: int, nan: bool, node: Typed) -> Interval:
    low, high = a.low**exponent, a.high**exponent
    if exponent % 2 == 0:
        low, high = (0 if a.contains(0) else min(low, high)), max(low, high)
    result = of_values(low, high, nan)
    if is_int(node.type.dtype) or exponent <= 1:
        return result
    return loose(result, node.type.dtype, floor=0.0 if exponent % 2 == 0 else -math.inf)


def absolute(args: Ranges, node: Typed) -> Interval:
    """`abs(a)`."""
    (a,) = args
    if a.low >= 0:
        return a
    low = 0 if a.contains(0) else min(abs(a.low), abs(a.high))
    return Interval(low, max(abs(a.low), abs(a.high)), a.nan)


def sign(args: Ranges, node: Typed) -> Interval:
    """-1, 0 or 1."""
    (a,) = args
    return Interval((a.low > 0) - (a.low < 0), (a.high > 0) - (a.high < 0), a.nan)


def minimum(args: Ranges, node: Typed) -> Interval:
    """The smallest of the operands."""
    below: Sym | None = None
    for one in (bound(a.top) for a in args if isinstance(a.top, Sym)):
        if one is not None and (below is None or at_most(one, below)):
            below = one
    return Interval(min(a.low for a in args), min(a.high for a in args), _nan(args), below=below)


def maximum(args: Ranges, node: Typed) -> Interval:
    """The largest of the operands."""
    highest = max(a.high for a in args)
    return Interval(max(a.low for a in args), highest, _nan(args), below=bound_of_all(args))


def clamp(args: Ranges, node: Typed) -> Interval:
    """`min(max(x, low), high)`; NaN stays NaN."""
    x, low, high = args
    return minimum((maximum((x, low), node), high), node)


def choose(args: Ranges, node: Typed) -> Interval:
    """Either of the last two operands."""
    return args[1].hull(args[2])


def rising(
    function: Callable[[float], float],
    floor: float = -math.inf,
    ceiling: float = math.inf,
    domain: tuple[float, float] = (-math.inf, math.inf),
    exact: bool = False,
) -> IntervalRule:
    """The rule of a function that never falls; outside of `domain` it gives NaN."""

    def rule(args: Ranges, node: Typed) -> Interval:
        (x,) = args
        low, high = max(x.low, domain[0]), min(x.high, domain[1])
        if low > high:
            return Interval(floor, ceiling, True)
        nan = x.nan or x.low < domain[0] or x.high > domain[1]
        image = monotone(function, Interval(low, high), nan)
        return image if exact else loose(image, node.type.dtype, floor, ceiling)

    return rule


def between(low: float, high: float) -> IntervalRule:
    """The rule of a function whose values lie between `low` and `high`, NaN for infinities."""

    def rule(args: Ranges, node: Typed) -> Interval:
        return Interval(low, high, any(arg.nan or not arg.bounded for arg in args))

    return rule


def _floor(value: float) -> float:
    return value if math.isinf(value) else math.floor(value)


def sums(x: Interval, counts: Iterable[Dim], dtype: str) -> Interval:
    """The sums of as many values of `x` as one of `counts`, added in whatever order.

    NaN where partial sums can be infinite in both directions.
    """
    numbers = {number for count in counts for number in limits(count)}
    most = max(numbers)
    ends = [end * number for end in (x.low, x.high) for number in numbers]
    total = of_values(min(ends), max(ends), x.nan)
    if is_int(dtype):
        return total
    largest = FLOAT_RANGES.get(dtype, 0.0)
    clash = x.low * most < -largest and x.high * most > largest
    return loose(total.with_nan(total.nan or clash), dtype, operations=most)


def products(x: Interval, count: Dim, dtype: str, *, partial: bool) -> Interval:
    """The products of `count` values of `x`; if `partial`, of any number of them from 1 up to `count`.

    With one factor at each end of `x`, or all but one, or all: no other product is larger or smaller.
    """
    least, most = limits(count)
    if partial or least < most:
        counts = {one for one in (1, 2, most - 1, most) if 1 <= one <= most}
    else:
        counts = {most}
    furthest = max(abs(x.low), abs(x.high))
    limit = INT_RANGES[dtype][1] if is_int(dtype) else FLOAT_RANGES.get(dtype, 0.0)
    overflows = furthest > 1 and most * math.log(furthest) > math.log(limit or 1.0) - 1e-3
    if x.nan or not x.bounded or overflows:
        return full(dtype)  # infinity times zero is NaN
    ends = [x.low**lows * x.high ** (count - lows) for count in counts for lows in {0, 1, count - 1, count}]
    result = Interval(min(ends), max(ends))
    return result if is_int(dtype) else loose(result, dtype, operations=most)
