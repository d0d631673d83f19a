"""Reductions that describe how values spread: `var`, `std` and `logsumexp`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.reduced import (
    KEEP,
    axes_of,
    count_of,
    counted,
    float_of,
    mean_dtype,
    reduced,
    reducing,
    refuse_dtype,
    settings_of,
    show_reduction,
)
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import convert
from specgen.expr.dtypes import FLOAT_RANGES
from specgen.expr.interval import Interval, loose, precision
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import limits
from specgen.expr.types import Typed
from specgen.values import replace


def _operand(site: Site) -> Typed | None:
    """The operand as floats, or None after reporting that it is no number."""
    (x,) = site.values
    if x.type.dtype == "bool" or mean_dtype(x.type.dtype) is None:
        refuse_dtype(site, x)
        return None
    return convert(x, float_of(x.type.dtype))


def _infer_spread(site: Site) -> Typed | None:
    x = _operand(site)
    kind = None if x is None else reduced(site, x)
    if x is None or kind is None:
        return None
    said = site.options["correction"]
    correction = said.static if isinstance(said, Typed) else said
    if axes_of(site, x) == ():
        message = f"`{site.builtin.name}` needs an axis: no values spread along none"
        site.fail(rules.WRONG_ARGUMENTS, message)
        return None
    count = limits(counted(x.type.dims, axes_of(site, x)))[1]
    if not isinstance(correction, int) or not 0 <= correction < count:
        message = f"`correction` is a whole number known at build, from 0 to {count - 1}: it is taken from {count} values"
        site.fail(rules.WRONG_ARGUMENTS, message, at=said if isinstance(said, Typed) else None)
        return None
    return site.node(replace(kind, dtype=x.type.dtype), (x,), correction=correction, **settings_of(site, x))


def _var_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    (x,), (least, count) = args, limits(count_of(node))
    correction = node.options["correction"]
    assert isinstance(correction, int)
    furthest, dtype = max(abs(x.low), abs(x.high)), node.type.dtype
    if least <= correction or x.nan or not 4 * count * furthest * furthest < FLOAT_RANGES[dtype]:
        return Interval(0, math.inf, True)
    # Half of the values at each end spread furthest; the mean they are measured from is rounded.
    width = x.high - x.low + furthest * precision(dtype) * max(1.0, count / 16)
    largest = width * width / 4 * least / (least - correction)
    return loose(Interval(0, largest), dtype, operations=count)


def _std_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    variance = _var_range(args, node)
    return loose(Interval(0, math.sqrt(variance.high), variance.nan), node.type.dtype)


def _show_spread(name: str) -> Callable[[Typed, Printer], Printed]:
    def show(node: Typed, printer: Printer) -> Printed:
        x, dims = reducing(node, printer)
        return method(x, name, dims, f"correction={node.options['correction']}")

    return show


def _spread(name: str, doc: str, interval: Callable[[tuple[Interval, ...], Typed], Interval]) -> Builtin:
    def reference(np: Any, x: Any, axis: Any, correction: int, keep: bool = False, **_: Any) -> Any:
        return getattr(np, name)(x, axis=axis, ddof=correction, dtype=x.dtype, keepdims=keep)

    return Builtin(
        name=name,
        family="reduction",
        doc=doc,
        params=(Param("x"), Param("axis", "axes", None), Param("correction", "int", 0), KEEP),
        infer=_infer_spread,
        interval=interval,
        torch=_show_spread(name),
        reference=reference,
        agreement="ulp",
    )


def _infer_logsumexp(site: Site) -> Typed | None:
    x = _operand(site)
    kind = None if x is None else reduced(site, x)
    if x is None or kind is None:
        return None
    return site.node(replace(kind, dtype=x.type.dtype), (x,), **settings_of(site, x))


def _logsumexp_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    (x,), (least, most) = args, limits(count_of(node))
    more, slack = math.log(most), precision(node.type.dtype) * max(1.0, most / 16)
    low, high = x.low + math.log(least), x.high + more
    # The logarithm is added to the largest value: what is lost is measured by these, not by their sum.
    return Interval(low - slack * _size(x.low, more), high + slack * _size(x.high, more), x.nan)


def _size(end: float, more: float) -> float:
    return 0.0 if math.isinf(end) else max(abs(end), more, 1.0)


def _logsumexp_reference(np: Any, x: Any, axis: Any, keep: bool = False, **_: Any) -> Any:
    largest = np.max(x, axis=axis, keepdims=True)
    base = np.where(np.isfinite(largest), largest, 0)
    return np.log(np.sum(np.exp(x - base), axis=axis, keepdims=keep)) + (
        base if keep else np.squeeze(base, axis)
    )


STATISTICS: tuple[Builtin, ...] = (
    _spread(
        "var",
        "The mean squared distance from the mean over an axis or all: of these values, as in NumPy. "
        "`correction=1` estimates it for what they are a sample of, as torch does when it is told nothing.",
        _var_range,
    ),
    _spread("std", "The square root of `var`.", _std_range),
    Builtin(
        name="logsumexp",
        family="reduction",
        doc="`log(sum(exp(x)))` over an axis or all, which neither overflows nor loses small numbers.",
        params=(Param("x"), Param("axis", "axes", None), KEEP),
        infer=_infer_logsumexp,
        interval=_logsumexp_range,
        torch=show_reduction("logsumexp"),
        reference=_logsumexp_reference,
        agreement="ulp",
    ),
)
