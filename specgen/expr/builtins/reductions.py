"""Reductions over feature axes; `min` and `max` also compare two values or more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.record import Agreement, Builtin, IntervalRule, Param
from specgen.expr.builtins.site import Site, convert
from specgen.expr.dtypes import COMPUTE, is_float, is_int, is_number
from specgen.expr.interval import BOOLS, Interval, loose
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import Dim, limits, product
from specgen.expr.types import Type, Typed

_PARAMS = (Param("x"), Param("axis", "axes", None))


def reduced(site: Site, x: Typed) -> Type | None:
    """The type of `x` without the axes of this call; puts them, from the end, into its options."""
    if x.type.open:
        site.fail(
            rules.SHAPE_MISMATCH, f"`{site.written(x)}` has an unknown rank; its axes cannot be reduced", at=x
        )
        return None
    if x.type.rank == 0:
        message = f"`{site.written(x)}` is one number: there is nothing to reduce"
        site.fail(rules.SHAPE_MISMATCH, message, at=x)
        return None
    given = cast("tuple[int, ...] | None", site.options.get("axis"))
    axes = tuple(range(x.type.rank)) if given is None else given
    kept = tuple(size for axis, size in enumerate(x.type.dims) if axis not in axes)
    return Type(x.type.dtype, kept, x.type.level)


def axes_of(site: Site, x: Typed) -> tuple[int, ...]:
    """The axes that this call reduces, counted from the front."""
    given = cast("tuple[int, ...] | None", site.options.get("axis"))
    return tuple(range(x.type.rank)) if given is None else given


def _reduce(
    result: Callable[[str], str | None], operand: Callable[[str], str]
) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        dtype = result(x.type.dtype)
        if dtype is None:
            refuse_dtype(site, x)
            return None
        kind = reduced(site, x)
        if kind is None:
            return None
        inner = convert(x, operand(x.type.dtype))
        return site.node(replace(kind, dtype=dtype), (inner,), axis=axes_of(site, x))

    return infer


def refuse_dtype(site: Site, x: Typed) -> None:
    """Report that this function is not defined for the dtype of `x`."""
    text = site.written(x)
    if site.builtin.name in ("any", "all"):
        site.fail(rules.WRONG_DTYPE, f"`{text}` is {x.type}, not truth values", at=x, help="compare it first")
    else:
        # What each would be of 0 and 1.
        meant = {"min": f"all({text})", "prod": f"all({text})", "max": f"any({text})"}.get(site.builtin.name)
        help = f"write {meant}" if meant is not None and x.type.dtype == "bool" else None
        site.fail(
            rules.WRONG_DTYPE, f"`{site.builtin.name}` is not defined for {x.type.dtype}", at=x, help=help
        )


def sum_dtype(dtype: str) -> str | None:
    """The dtype of sums: int64 of integers and truth values, else the same; None for what is no number."""
    if is_int(dtype) or dtype == "bool":
        return "int64"
    return dtype if is_number(dtype) else None


def mean_dtype(dtype: str) -> str | None:
    """The dtype of means: a float; None for what is no number."""
    return COMPUTE if is_int(dtype) or dtype == "bool" else dtype if is_float(dtype) else None


def number_dtype(dtype: str) -> str | None:
    """The dtype itself; None for what is no number."""
    return dtype if is_number(dtype) else None


def _bool_dtype(dtype: str) -> str | None:
    return "bool" if dtype == "bool" else None


def float_of(dtype: str) -> str:
    """The float dtype in which values of `dtype` are computed with."""
    return COMPUTE if is_int(dtype) or dtype == "bool" else dtype


def dims_text(node: Typed) -> tuple[int, ...]:
    """The reduced axes of `node`, counted from the end of its operand."""
    rank = node.args[0].type.rank
    return tuple(axis - rank for axis in cast("tuple[int, ...]", node.options["axis"]))


def dims_option(node: Typed) -> str:
    """The argument of torch's functions that names the reduced axes: `dim=-1`, `dim=(-2, -1)`."""
    axes = dims_text(node)
    return f"dim={axes[0] if len(axes) == 1 else tuple_text(map(str, axes))}"


def show_reduction(name: str) -> Callable[[Typed, Printer], Printed]:
    """Printing as the method `name` of the operand, `x.sum(dim=-1)`."""

    def show(node: Typed, printer: Printer) -> Printed:
        return method(printer.logical(node.args[0]), name, dims_option(node))

    return show


def _flat(node: Typed, printer: Printer) -> tuple[Printed, int]:
    """The operand with the reduced axes made one, and that axis."""
    x = printer.logical(node.args[0])
    axes = dims_text(node)
    if len(axes) == 1:
        return x, axes[0]
    return method(x, "flatten", str(axes[0]), str(axes[-1])), axes[-1]


def _show_flat(name: str) -> Callable[[Typed, Printer], Printed]:
    def show(node: Typed, printer: Printer) -> Printed:
        x, axis = _flat(node, printer)
        return method(x, name, f"dim={axis}")

    return show


def _show_norm(node: Typed, printer: Printer) -> Printed:
    return printer.call("vector_norm", printer.logical(node.args[0]).text, dims_option(node))


def count_of(node: Typed) -> Dim:
    """How many values one result is reduced from."""
    axes = cast("tuple[int, ...]", node.options["axis"])
    return product(node.args[0].type.sizes[axis] for axis in axes)


def _sum_range(args: tuple[Interval, ...], node: Typed) -> Interval:
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


def _one_axis(rule: Callable[[Site], Typed | None]) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        axes = axes_of(site, x)
        if len(axes) > 1 and len(axes) < x.type.rank:
            site.fail(rules.WRONG_ARGUMENTS, f"`{site.builtin.name}` takes one axis, or none for all")
            return None
        return rule(site)

    return infer


def _index_dtype(dtype: str) -> str | None:
    return "int64" if is_number(dtype) or dtype == "bool" else None


def _ordered(dtype: str) -> str:
    # torch finds no largest of truth values, but of the bytes that they are
    return "uint8" if dtype == "bool" else dtype


def _builtin(
    name: str,
    doc: str,
    infer: Callable[[Site], Typed | None],
    interval: IntervalRule,
    show: Callable[[Typed, Printer], Printed],
    reference: Callable[..., Any],
    agreement: Agreement = "bit",
) -> Builtin:
    return Builtin(
        name=name,
        signature=f"{name}(x, axis=None)",
        family="reduction",
        doc=doc,
        params=_PARAMS,
        infer=infer,
        interval=interval,
        torch=show,
        reference=reference,
        agreement=agreement,
    )


def _extreme(name: str, doc: str, interval: IntervalRule) -> Builtin:
    python: Any = min if name == "min" else max

    def infer(site: Site) -> Typed | None:
        if len(site.values) == 1:
            return _reduce(number_dtype, lambda dtype: dtype)(site)
        if site.options.get("axis") is not None:
            site.fail(
                rules.WRONG_ARGUMENTS, f"`{name}` of several values takes no axis", help="reduce each first"
            )
            return None
        return pointwise.numeric(site)

    def values(args: tuple[Interval, ...], node: Typed) -> Interval:
        return args[0] if len(args) == 1 else interval(args, node)

    def show(node: Typed, printer: Printer) -> Printed:
        return (
            show_reduction(f"a{name}")(node, printer)
            if len(node.args) == 1
            else pointwise.extreme(name)(node, printer)
        )

    def reference(np: Any, *args: Any, axis: Any = None) -> Any:
        if len(args) == 1:
            return getattr(np, name)(args[0], axis=axis)
        result = args[0]
        for arg in args[1:]:
            result = getattr(np, f"{name}imum")(result, arg)
        return result

    return Builtin(
        name=name,
        signature=f"{name}(x, axis=None) or {name}(a, b, …)",
        family="reduction",
        doc=doc,
        params=(Param("values", variadic=True), Param("axis", "axes", None)),
        infer=infer,
        interval=values,
        torch=show,
        reference=reference,
        python=lambda *args: python(args),
        layout=lambda args: args if len(args) > 1 else (),
    )


def _arg_reference(name: str) -> Callable[..., Any]:
    def reference(np: Any, x: Any, axis: Any = None) -> Any:
        only = axis[0] if axis is not None and len(axis) == 1 else None
        return getattr(np, name)(x, axis=only)

    return reference


def _norm_reference(np: Any, x: Any, axis: Any = None) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis))


def _sum_reference(np: Any, x: Any, axis: Any = None) -> Any:
    dtype = x.dtype if x.dtype.kind == "f" else np.int64
    return np.sum(x, axis=axis, dtype=dtype)


def _prod_reference(np: Any, x: Any, axis: Any = None) -> Any:
    dtype = x.dtype if x.dtype.kind == "f" else np.int64
    return np.prod(x, axis=axis, dtype=dtype)


def _same(dtype: str) -> str:
    return dtype


REDUCTIONS: tuple[Builtin, ...] = (
    _builtin(
        "sum",
        "The sum over an axis, several axes, or all. Of truth values it counts; of integers it is int64.",
        _reduce(sum_dtype, _same),
        _sum_range,
        show_reduction("sum"),
        _sum_reference,
        "ulp",
    ),
    _builtin(
        "mean",
        "The mean; of integers and truth values it is float32.",
        _reduce(mean_dtype, float_of),
        _mean_range,
        show_reduction("mean"),
        lambda np, x, axis=None: np.mean(x, axis=axis, dtype=x.dtype),
        "ulp",
    ),
    _builtin(
        "prod",
        "The product over one axis or all.",
        _one_axis(_reduce(lambda dtype: None if dtype == "bool" else sum_dtype(dtype), _same)),
        lambda args, node: ranges.products(args[0], count_of(node), node.type.dtype, partial=False),
        _show_flat("prod"),
        _prod_reference,
        "ulp",
    ),
    _builtin(
        "any",
        "Whether any is true.",
        _reduce(_bool_dtype, _same),
        lambda args, node: BOOLS,
        show_reduction("any"),
        lambda np, x, axis=None: np.any(x, axis=axis),
    ),
    _builtin(
        "all",
        "Whether all are true.",
        _reduce(_bool_dtype, _same),
        lambda args, node: BOOLS,
        show_reduction("all"),
        lambda np, x, axis=None: np.all(x, axis=axis),
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
        _one_axis(_reduce(_index_dtype, _ordered)),
        _index_range,
        _show_flat("argmax"),
        _arg_reference("argmax"),
    ),
    _builtin(
        "argmin",
        "The position of the smallest element, the first of several, along one axis or in all elements row by row; "
        "of truth values the first that is false.",
        _one_axis(_reduce(_index_dtype, _ordered)),
        _index_range,
        _show_flat("argmin"),
        _arg_reference("argmin"),
    ),
    _builtin(
        "norm",
        "The Euclidean norm over an axis or all.",
        _reduce(mean_dtype, float_of),
        _norm_range,
        _show_norm,
        _norm_reference,
        "ulp",
    ),
)
