"""Reductions over feature axes; `min` and `max` also compare two values or more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.operators import OPERATORS
from specgen.expr.builtins.record import Builtin, IntervalRule, Param
from specgen.expr.builtins.reduced import (
    KEEP,
    axes_of,
    bool_dtype,
    count_of,
    float_of,
    mean_dtype,
    number_dtype,
    reducing,
    reducing_flat,
    reduction,
    show_reduction,
    sum_dtype,
)
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_number
from specgen.expr.interval import BOOLS, Interval, full, loose
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import NamedAxis, limits
from specgen.expr.types import Typed
from specgen.values import replace

_PLUS = next(builtin for builtin in OPERATORS if builtin.name == "+")
_PARAMS = (Param("x"), Param("axis", "axes", None), KEEP)


def _sum_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    if not _is_reduction(node.args):
        return full(node.type.dtype)
    return ranges.sums(args[0], (count_of(node),), node.type.dtype)


def _mean_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    x = args[0]
    return loose(x.with_nan(x.nan or not x.bounded), node.type.dtype)


def _index_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    return Interval.indices(count_of(node))


def _norm_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    furthest = max(abs(args[0].low), abs(args[0].high))
    return loose(
        Interval(0, furthest * limits(count_of(node))[1] ** 0.5, args[0].nan), node.type.dtype, floor=0.0
    )


def _show_norm(node: Typed, printer: Printer) -> Printed:
    x, dims = reducing(node, printer)
    return printer.call("vector_norm", x.text, dims)


def _one_axis(rule: Callable[[Site], Typed | None]) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        axes, keep = axes_of(site, x), bool(site.options.get("keep"))
        if isinstance(axes, NamedAxis):
            return rule(site)
        several = isinstance(axes, Typed) or (axes is not None and len(axes) > 1)
        whole = isinstance(axes, tuple) and len(axes) == x.type.rank and not x.type.open
        if several and (keep or not whole):
            none = "" if keep else ", or none for all"
            site.fail(rules.WRONG_ARGUMENTS, f"`{site.builtin.name}` takes one axis{none}")
            return None
        return rule(site)

    return infer


def _index_dtype(dtype: str) -> str | None:
    return "int64" if is_number(dtype) or dtype == "bool" else None


def _ordered(dtype: str) -> str:
    # torch finds no largest of truth values, but of the bytes that they are
    return "uint8" if dtype == "bool" else dtype


_builtin = partial(Builtin, family="reduction", params=_PARAMS)


def _is_reduction(values: Sequence[Typed]) -> bool:
    """Whether one value is reduced along its axes, not several element by element."""
    return len(values) == 1 and not values[0].several


def _show_several(node: Typed, printer: Printer, name: str) -> Printed:
    """Several values, of which nobody knows how many there are, made one element by element."""
    rank = None if node.type.open else node.type.rank
    tensors = [
        printer.show(arg) if arg.several else printer.tensor(arg, node.type.dtype, rank) for arg in node.args
    ]
    parts = printer.call("torch.stack", tuple_text(one.text for one in tensors))
    return method(parts, name, "dim=0")


def _infer_sum(site: Site) -> Typed | None:
    """Along axes of one value; of several element by element, as `a + b`."""
    first, *others = site.values
    if _is_reduction(site.values):
        return reduction(sum_dtype, _same)(site)
    if site.options.get("axis") is not None or site.options.get("keep"):
        site.fail(rules.WRONG_ARGUMENTS, "`sum` of several values takes no axis", help="reduce each first")
        return None
    if any(value.several for value in site.values):
        return pointwise.numeric(site)
    plus, total = _PLUS, first
    for other in others:
        node = plus.infer(replace(site, builtin=plus, values=(total, other), options={}))
        if node is None:
            return None
        total = node
    return total


def _show_sum(node: Typed, printer: Printer) -> Printed:
    if _is_reduction(node.args):
        return show_reduction("sum")(node, printer)
    return printer.call("sum", tuple_text(printer.show(arg).text for arg in node.args))


def _extreme(name: str, doc: str, interval: IntervalRule) -> Builtin:
    python: Any = min if name == "min" else max

    def infer(site: Site) -> Typed | None:
        if _is_reduction(site.values):
            return reduction(number_dtype, lambda dtype: dtype)(site)
        if site.options.get("axis") is not None or site.options.get("keep"):
            site.fail(
                rules.WRONG_ARGUMENTS, f"`{name}` of several values takes no axis", help="reduce each first"
            )
            return None
        return pointwise.numeric(site)

    def values(args: tuple[Interval, ...], node: Typed) -> Interval:
        return args[0] if _is_reduction(node.args) else interval(args, node)

    def show(node: Typed, printer: Printer) -> Printed:
        return (
            show_reduction(f"a{name}")(node, printer)
            if _is_reduction(node.args)
            else _show_several(node, printer, f"a{name}")
            if any(arg.several for arg in node.args)
            else pointwise.extreme(name)(node, printer)
        )

    def reference(np: Any, *args: Any, axis: Any = None, keep: bool = False, **_: Any) -> Any:
        if len(args) == 1:
            return getattr(np, name)(args[0], axis=axis, keepdims=keep)
        result = args[0]
        for arg in args[1:]:
            result = getattr(np, f"{name}imum")(result, arg)
        return result

    return Builtin(
        name=name,
        form=f"{name}(x, axis=None, keep=false) or {name}(a, b, …)",
        family="reduction",
        doc=doc,
        params=(Param("values", variadic=True), Param("axis", "axes", None), KEEP),
        infer=infer,
        interval=values,
        torch=show,
        reference=reference,
        python=lambda *args: python(args),
        layout=lambda args: args if len(args) > 1 else (),
    )


def _arg_reference(name: str) -> Callable[..., Any]:
    def reference(np: Any, x: Any, axis: Any = None, keep: bool = False, **_: Any) -> Any:
        only = axis[0] if axis is not None and len(axis) == 1 else None
        return getattr(np, name)(x, axis=only, keepdims=keep)

    return reference


def _norm_reference(np: Any, x: Any, axis: Any = None, keep: bool = False, **_: Any) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keep))


def _sum_reference(np: Any, *values: Any, axis: Any = None, keep: bool = False, **_: Any) -> Any:
    x, *others = values
    if others:
        return sum(others, x)
    dtype = x.dtype if x.dtype.kind == "f" else np.int64
    return np.sum(x, axis=axis, dtype=dtype, keepdims=keep)


def _prod_reference(np: Any, x: Any, axis: Any = None, keep: bool = False, **_: Any) -> Any:
    dtype = x.dtype if x.dtype.kind == "f" else np.int64
    return np.prod(x, axis=axis, dtype=dtype, keepdims=keep)


def _same(dtype: str) -> str:
    return dtype


REDUCTIONS: tuple[Builtin, ...] = (
    Builtin(
        name="sum",
        form="sum(x, axis=None, keep=false) or sum(a, b, …)",
        family="reduction",
        doc="The sum over an axis, several axes, or all; of several values `a + b`. Of truth values it counts; of "
        "integers it is int64.",
        params=(Param("values", variadic=True), Param("axis", "axes", None), KEEP),
        infer=_infer_sum,
        interval=_sum_range,
        torch=_show_sum,
        reference=_sum_reference,
        agreement="ulp",
    ),
    _builtin(
        "mean",
        "The mean; of integers and truth values it is float32.",
        reduction(mean_dtype, float_of),
        _mean_range,
        show_reduction("mean"),
        lambda np, x, axis=None, keep=False, **_: np.mean(x, axis=axis, dtype=x.dtype, keepdims=keep),
        agreement="ulp",
    ),
    _builtin(
        "prod",
        "The product over one axis or all.",
        _one_axis(reduction(lambda dtype: None if dtype == "bool" else sum_dtype(dtype), _same)),
        lambda args, node: ranges.products(args[0], count_of(node), node.type.dtype, partial=False),
        show_reduction("prod", reducing_flat),
        _prod_reference,
        agreement="ulp",
    ),
    _builtin(
        "any",
        "Whether any is true.",
        reduction(bool_dtype, _same),
        lambda args, node: BOOLS,
        show_reduction("any"),
        lambda np, x, axis=None, keep=False, **_: np.any(x, axis=axis, keepdims=keep),
    ),
    _builtin(
        "all",
        "Whether all are true.",
        reduction(bool_dtype, _same),
        lambda args, node: BOOLS,
        show_reduction("all"),
        lambda np, x, axis=None, keep=False, **_: np.all(x, axis=axis, keepdims=keep),
    ),
    _extreme(
        "min",
        "Of one argument the smallest element over an axis or all; of several the smaller, element by element.",
        ranges.minimum,
    ),
    _extreme(
        "max",
        "Of one argument the largest element over an axis or all; of several the larger, element by element.",
        ranges.maximum,
    ),
    _builtin(
        "argmax",
        "The position of the largest element, the first of several, along one axis or in all elements row by row; "
        "of truth values the first that is true: the class of a one-hot.",
        _one_axis(reduction(_index_dtype, _ordered)),
        _index_range,
        show_reduction("argmax", reducing_flat),
        _arg_reference("argmax"),
    ),
    _builtin(
        "argmin",
        "The position of the smallest element, the first of several, along one axis or in all elements row by row; "
        "of truth values the first that is false.",
        _one_axis(reduction(_index_dtype, _ordered)),
        _index_range,
        show_reduction("argmin", reducing_flat),
        _arg_reference("argmin"),
    ),
    _builtin(
        "norm",
        "The Euclidean norm over an axis or all.",
        reduction(mean_dtype, float_of),
        _norm_range,
        _show_norm,
        _norm_reference,
        agreement="ulp",
    ),
)
