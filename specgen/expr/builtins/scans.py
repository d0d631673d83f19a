"""Functions that keep the shape and work along one axis: running sums and products, sorting, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.axes import node_axis
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.reduced import float_of, mean_dtype, number_dtype, refuse_dtype, sum_dtype
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import convert
from specgen.expr.interval import Interval, loose
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Dim, limits
from specgen.expr.types import Typed
from specgen.values import replace

LAST_AXIS = Param("axis", "axis", -1)
ONLY_AXIS = Param("axis", "axis", None)
"""An axis that is left out only where there is no other; libraries differ in what they take for it."""


def axis_of(site: Site, x: Typed) -> int | None:
    """The axis of this call, or None after reporting that `x` has none, or several to choose from."""
    axis = site.options.get("axis")
    name, text = site.builtin.name, site.written(x)
    if x.type.open:
        message = f"`{text}` has an unknown rank; `{name}` needs to know its axes"
        site.fail(rules.SHAPE_MISMATCH, message, at=x)
        return None
    if x.type.rank == 0:
        site.fail(rules.SHAPE_MISMATCH, f"`{text}` is one number: it has no axis", at=x)
        return None
    if axis is None and x.type.rank > 1:
        message = f"`{text}` is {x.type}: `{name}` needs to know along which axis"
        site.fail(rules.WRONG_ARGUMENTS, message, help="say axis=-1 for the last")
        return None
    assert axis is None or isinstance(axis, int)
    return axis or 0


def length_of(node: Typed) -> Dim:
    """How many elements the axis of `node` has."""
    axis = node.options["axis"]
    assert isinstance(axis, int)
    return node.type.sizes[axis]


def _rule(
    result: Callable[[str], str | None], operand: Callable[[str], str]
) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        dtype = result(x.type.dtype)
        if dtype is None:
            refuse_dtype(site, x)
            return None
        axis = axis_of(site, x)
        if axis is None:
            return None
        # Stored with a trailing 1 or not, the axis counts those of the declaration.
        kind = replace(x.type, dtype=dtype)
        return site.node(kind, (convert(x, operand(x.type.dtype)),), axis=axis)

    return infer


def _show(name: str, *options: str, attribute: str = "") -> Callable[[Typed, Printer], Printed]:
    def show(node: Typed, printer: Printer) -> Printed:
        x = printer.logical(node.args[0])
        printed = method(x, name, f"dim={node_axis(node, printer)}", *options)
        return Printed(f"{printed.text}{attribute}")

    return show


def _softmax_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    return Interval(0, 1, args[0].nan or not args[0].bounded)


def _log_softmax_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    (x,), (_, most) = args, limits(length_of(node))
    # Of n equal numbers each has the probability 1 / n; one that is the smallest has less by how far they are apart.
    lowest = Interval(x.low - x.high - math.log(most), 0.0, x.nan or not x.bounded)
    return loose(lowest, node.type.dtype, ceiling=0.0, operations=most)


def _running(name: str) -> Callable[..., Any]:
    def reference(np: Any, x: Any, axis: int) -> Any:
        dtype = x.dtype if x.dtype.kind == "f" else np.int64
        return getattr(np, name)(x, axis=axis, dtype=dtype)

    return reference


def _softmax_reference(np: Any, x: Any, axis: int) -> Any:
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _log_softmax_reference(np: Any, x: Any, axis: int) -> Any:
    rest = x - np.max(x, axis=axis, keepdims=True)
    return rest - np.log(np.sum(np.exp(rest), axis=axis, keepdims=True))


_scan = partial(Builtin, family="scan", params=(Param("x"), LAST_AXIS))
_cumulative = partial(_scan, params=(Param("x"), ONLY_AXIS))


def _same(dtype: str) -> str:
    return dtype


_NEEDED = "The axis may be left out of a vector only."

SCANS: tuple[Builtin, ...] = (
    _cumulative(
        "cumsum",
        f"The sum of each element and all before it along an axis; of integers and truth values it is int64. {_NEEDED}",
        _rule(sum_dtype, _same),
        lambda args, node: ranges.sums(args[0], (1, length_of(node)), node.type.dtype),
        _show("cumsum"),
        _running("cumsum"),
        agreement="ulp",
    ),
    _cumulative(
        "cumprod",
        f"The product of each element and all before it along an axis; of integers it is int64. {_NEEDED}",
        _rule(lambda dtype: None if dtype == "bool" else sum_dtype(dtype), _same),
        lambda args, node: ranges.products(args[0], length_of(node), node.type.dtype, partial=True),
        _show("cumprod"),
        _running("cumprod"),
        agreement="ulp",
    ),
    _scan(
        "sort",
        "The elements in rising order along an axis, NaN last; in falling order they are `flip(sort(x), axis=-1)`.",
        _rule(number_dtype, _same),
        ranges.same,
        _show("sort", attribute=".values"),
        lambda np, x, axis: np.sort(x, axis=axis),
    ),
    _scan(
        "argsort",
        "The positions of the elements in rising order along an axis, equal ones in the order in which they stand; "
        "in falling order `argsort(-x)`.",
        _rule(lambda dtype: None if number_dtype(dtype) is None else "int64", _same),
        lambda args, node: Interval.indices(length_of(node)),
        _show("argsort", "stable=True"),
        lambda np, x, axis: np.argsort(x, axis=axis, kind="stable"),
    ),
    _scan(
        "softmax",
        "`exp(x)` divided by its sum along an axis: probabilities from logits; of integers it is float32.",
        _rule(lambda dtype: None if dtype == "bool" else mean_dtype(dtype), float_of),
        _softmax_range,
        _show("softmax"),
        _softmax_reference,
        agreement="ulp",
    ),
    _scan(
        "log_softmax",
        "`log(softmax(x))`, which neither overflows nor loses small probabilities: log-probabilities from logits.",
        _rule(lambda dtype: None if dtype == "bool" else mean_dtype(dtype), float_of),
        _log_softmax_range,
        _show("log_softmax"),
        _log_softmax_reference,
        agreement="ulp",
    ),
)
