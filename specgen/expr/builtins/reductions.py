"""Reductions over feature axes; `min` and `max` also compare two values or more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.axes import Axis, axis_text, from_end, inexact, place_of, rank_of
from specgen.expr.builtins.operators import OPERATORS
from specgen.expr.builtins.record import Agreement, Builtin, IntervalRule, Param
from specgen.expr.builtins.site import Site, convert
from specgen.expr.dtypes import COMPUTE, is_float, is_int, is_number
from specgen.expr.interval import BOOLS, Interval, full, loose
from specgen.expr.printer import TERNARY, Printed, Printer, method, tuple_text
from specgen.expr.sizes import ANY_DIMS, Dim, Dims, Rest, Sym, limits, product
from specgen.expr.types import Type, Typed

_PLUS = next(builtin for builtin in OPERATORS if builtin.name == "+")
KEEP = Param("keep", "flag", False)
_PARAMS = (Param("x"), Param("axis", "axes", None), KEEP)

Axes = tuple[Axis, ...] | Typed | None
"""The axes of a reduction: one by one; a list that the constructor is given; None for all where nobody knows them."""


def reduced(site: Site, x: Typed) -> Type | None:
    """The shape of `x` without the axes of this call, or with 1 in their place."""
    if x.type.rank == 0 and not x.type.open:
        message = f"`{site.written(x)}` is one number: there is nothing to reduce"
        site.fail(rules.SHAPE_MISMATCH, message, at=x)
        return None
    axes, keep = axes_of(site, x), bool(site.options.get("keep"))
    if not isinstance(axes, tuple):
        return _reduced_unknown(site, x, axes, keep=keep)
    places = [place_of(x.type.dims, axis) for axis in axes]
    if None in places:
        return replace(x.type, dims=inexact(x.type.dims, 0 if keep else -len(places)), stretch=frozenset())
    if keep:
        kept = tuple(1 if place in places else size for place, size in enumerate(x.type.dims))
        return Type(
            x.type.dtype,
            kept,
            x.type.level,
            stretch=frozenset(place for place in places if place is not None),
        )
    kept = tuple(size for place, size in enumerate(x.type.dims) if place not in places)
    return Type(x.type.dtype, kept, x.type.level)


def _reduced_unknown(site: Site, x: Typed, axes: Typed | None, *, keep: bool) -> Type | None:
    if axes is None and not keep and rank_of(x.type.dims) is not None:
        return Type(x.type.dtype, (), x.type.level)
    if axes is not None and keep:
        dims = inexact(x.type.dims) if x.type.open else (ANY_DIMS)
        return Type(x.type.dtype, dims, x.type.level)
    message = f"`{site.written(x)}` has an unknown rank; its axes cannot be reduced"
    help = "say keep=true: as many dimensions are left" if axes is not None else "say which axes: axis=-1"
    site.fail(rules.SHAPE_MISMATCH, message, at=x, help=help)
    return None


def axes_of(site: Site, x: Typed) -> Axes:
    """The axes that this call reduces."""
    given = cast("Axes", site.options.get("axis"))
    return tuple(range(x.type.rank)) if given is None and not x.type.open else given


def settings_of(site: Site, x: Typed) -> dict[str, Any]:
    """The settings of a reduction: its axes, whether they are kept, and what tells how many there are."""
    axes = axes_of(site, x)
    found: dict[str, Any] = {"axis": axes}
    if site.options.get("keep"):
        found["keep"] = True
    if axes is None and (first := from_end(x.type.dims, 0)) is not None:
        found["first"] = from_end((*x.type.dims, 1), 0) or first
    return found


def _reduce(
    result: Callable[[str], str | None], operand: Callable[[str], str]
) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        dtype = result(x.type.dtype)
        if dtype is None:
            refuse_dtype(site, x)
            return None
        inner = convert(x, operand(x.type.dtype))
        if site.options.get("axis") == ():
            return inner
        kind = reduced(site, x)
        if kind is None:
            return None
        return site.node(replace(kind, dtype=dtype), (inner,), **settings_of(site, x))

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


def reducing(node: Typed, printer: Printer) -> tuple[Printed, str]:
    """The operand of a reduction and the arguments that name its axes: `dim=-1`, `dim=(-2, -1), keepdim=True`."""
    x, axes = printer.logical(node.args[0]), cast("Axes", node.options["axis"])
    keep = ", keepdim=True" if node.options.get("keep") else ""
    if axes is None:
        first = node.options["first"]
        assert isinstance(first, Typed)
        return method(method(x, "unsqueeze", "-1"), "flatten", printer.text(first), "-1"), "dim=-1"
    if isinstance(axes, Typed):
        return x, f"dim={printer.text(axes)}{keep}"
    texts = [axis_text(axis, node.args[0].type.dims, printer) for axis in axes]
    return x, f"dim={texts[0] if len(texts) == 1 else tuple_text(texts)}{keep}"


def reducing_flat(node: Typed, printer: Printer) -> tuple[Printed, str]:
    """The operand with the reduced axes made one, and the arguments that name it."""
    axes = node.options["axis"]
    if not isinstance(axes, tuple) or len(axes) == 1:
        return reducing(node, printer)
    rank = node.args[0].type.rank
    x = method(printer.logical(node.args[0]), "flatten", str(axes[0] - rank), str(axes[-1] - rank))
    return x, f"dim={axes[-1] - rank}"


def show_reduction(
    name: str, operand: Callable[[Typed, Printer], tuple[Printed, str]] = reducing
) -> Callable[[Typed, Printer], Printed]:
    """Printing as the method `name` of the operand, `x.sum(dim=-1)`."""

    def show(node: Typed, printer: Printer) -> Printed:
        x, dims = operand(node, printer)
        reduced = method(x, name, dims)
        axes = node.options["axis"]
        if not isinstance(axes, Typed):
            return reduced
        # Without dimensions to reduce, torch would reduce them all.
        return Printed(f"{reduced.text} if {printer.text(axes)} else {x.at(TERNARY + 1)}", TERNARY)

    return show


def _show_norm(node: Typed, printer: Printer) -> Printed:
    x, dims = reducing(node, printer)
    return printer.call("vector_norm", x.text, dims)


def count_of(node: Typed) -> Dim:
    """How many values one result is reduced from."""
    return counted(node.args[0].type.dims, cast("Axes", node.options["axis"]))


def counted(dims: Dims, axes: Axes) -> Dim:
    """How many elements there are along some axes."""
    if not isinstance(axes, tuple):
        return Sym.named("count")
    places = [place_of(dims, axis) for axis in axes]
    sizes = [Sym.named("count") if place is None else dims[place] for place in places]
    return product(size for size in sizes if not isinstance(size, Rest))


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


def _one_axis(rule: Callable[[Site], Typed | None]) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        axes, keep = axes_of(site, x), bool(site.options.get("keep"))
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
        signature=f"{name}(x, axis=None, keep=false)",
        family="reduction",
        doc=doc,
        params=_PARAMS,
        infer=infer,
        interval=interval,
        torch=show,
        reference=reference,
        agreement=agreement,
    )


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
        return _reduce(sum_dtype, _same)(site)
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
            return _reduce(number_dtype, lambda dtype: dtype)(site)
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
        signature=f"{name}(x, axis=None, keep=false) or {name}(a, b, …)",
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
        signature="sum(x, axis=None, keep=false) or sum(a, b, …)",
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
        _reduce(mean_dtype, float_of),
        _mean_range,
        show_reduction("mean"),
        lambda np, x, axis=None, keep=False, **_: np.mean(x, axis=axis, dtype=x.dtype, keepdims=keep),
        "ulp",
    ),
    _builtin(
        "prod",
        "The product over one axis or all.",
        _one_axis(_reduce(lambda dtype: None if dtype == "bool" else sum_dtype(dtype), _same)),
        lambda args, node: ranges.products(args[0], count_of(node), node.type.dtype, partial=False),
        show_reduction("prod", reducing_flat),
        _prod_reference,
        "ulp",
    ),
    _builtin(
        "any",
        "Whether any is true.",
        _reduce(_bool_dtype, _same),
        lambda args, node: BOOLS,
        show_reduction("any"),
        lambda np, x, axis=None, keep=False, **_: np.any(x, axis=axis, keepdims=keep),
    ),
    _builtin(
        "all",
        "Whether all are true.",
        _reduce(_bool_dtype, _same),
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
        _one_axis(_reduce(_index_dtype, _ordered)),
        _index_range,
        show_reduction("argmax", reducing_flat),
        _arg_reference("argmax"),
    ),
    _builtin(
        "argmin",
        "The position of the smallest element, the first of several, along one axis or in all elements row by row; "
        "of truth values the first that is false.",
        _one_axis(_reduce(_index_dtype, _ordered)),
        _index_range,
        show_reduction("argmin", reducing_flat),
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
