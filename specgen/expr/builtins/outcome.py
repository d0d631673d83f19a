"""What the intervals of the operands decide before anything runs: results that are always NaN, comparisons never true."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.site import Site
from specgen.expr.interval import Interval
from specgen.expr.types import Typed

_DOMAINS: Final = {
    "sqrt": Interval(0, math.inf),
    "log": Interval(0, math.inf),
    "asin": Interval(-1, 1),
    "acos": Interval(-1, 1),
}


def report_nan(site: Site) -> None:
    """Report a function whose operand lies outside of what it is defined for, whatever the values are."""
    domain = _DOMAINS.get(site.builtin.name)
    if domain is None:
        return
    (value,) = site.values
    if value.static is not None or not value.interval.disjoint(domain):
        return
    text, name = site.written(value), site.builtin.name
    said = f"`{text}` {values_of(value.interval)}, where `{name}` is not defined"
    if value.type.python:
        site.fail(rules.WRONG_ARGUMENTS, said, at=value)
    else:
        site.fail(rules.ALWAYS_NAN, f"this is always NaN: {said}", at=value)


def report_never(site: Site) -> None:
    """Report a comparison that is false whatever the values are.

    One that is always true is let pass: `concat(a, b) >= 0` is how a mask that allows everything is made. So are
    sizes and other numbers known at build: what they are differs between declarations.
    """
    literal = all(value.op == "literal" for value in site.values)
    if any(value.static is not None and value.op != "literal" for value in site.values):
        return
    if not literal and all(value.interval.fixed for value in site.values):
        return
    a, b = (value.interval for value in site.values)
    if not _NEVER[site.builtin.name](a, b):
        return
    text = " ".join(
        f"{site.written(site.values[0])} {site.builtin.name} {site.written(site.values[1])}".split()
    )
    why = [f"`{site.written(v)}` {values_of(v.interval)}" for v in site.values if v.op != "literal"]
    said = f"`{text}` is never true"
    site.fail(rules.NEVER_TRUE, f"{said}: {' and '.join(why)}" if why else said)


_NEVER: Final[Mapping[str, Callable[[Interval, Interval], bool]]] = {
    "<": lambda a, b: a.low >= b.high,
    "<=": lambda a, b: a.low > b.high,
    ">": lambda a, b: a.high <= b.low,
    ">=": lambda a, b: a.high < b.low,
    "==": lambda a, b: a.disjoint(b),
    "!=": lambda a, b: a.fixed and b.fixed and a.low == b.low,
}
"""When a comparison is false for all values of two intervals."""


def values_of(interval: Interval) -> str:
    """The values of an interval, as the end of a sentence."""
    low, high = f"{interval.low:.6g}", f"{interval.high:.6g}"
    if interval.low == interval.high:
        return f"is {low}"
    if math.isinf(interval.low):
        return f"is at most {high}"
    return f"is at least {low}" if math.isinf(interval.high) else f"is between {low} and {high}"


def is_zero(value: Typed) -> bool:
    """Whether a divisor is zero, whatever the values are."""
    return value.static is None and value.interval.low == value.interval.high == 0
