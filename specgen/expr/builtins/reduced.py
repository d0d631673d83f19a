"""What all reductions share: their types, their axes, and how they are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.axes import Axis, axis_text, from_end, inexact, place_of, rank_of
from specgen.expr.builtins.record import Param
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import convert
from specgen.expr.dtypes import COMPUTE, is_float, is_int, is_number
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import ANY_DIMS, Dim, Dims, NamedAxis, Rest, Sym, limits, product
from specgen.expr.types import Type, Typed
from specgen.precedence import TERNARY
from specgen.values import replace

KEEP = Param("keep", "flag", False)

Axes = tuple[Axis, ...] | NamedAxis | Typed | None
"""The axes of a reduction: one by one, those that have names first; one that has a name; a list that the constructor is
given; None for all where nobody knows them."""

_OF_NOTHING = ("sum", "prod", "any", "all", "norm")
"""The reductions that have a value where there are no elements."""


_OF_ONE = {"argmax": "0", "std": "0.0", "var": "0.0", "norm": "abs({})"}
"""What reductions of one number are; the number itself where nothing is said."""


def reduced(site: Site, x: Typed) -> Type | None:
    """The shape of `x` without the axes of this call, or with 1 in their place."""
    named, unnamed = _by_name(site.options.get("axis"))
    if named:
        if site.options.get("keep"):
            message = f"`{x.type.axes[named[0]]}` can't be kept: no dimension stands for it"
            site.fail(rules.WRONG_ARGUMENTS, message)
            return None
        if not unnamed:
            return replace(x.type, axes=(), col=False)
        site = replace(site, options={**site.options, "axis": unnamed})
    if x.type.rank == 0 and not x.type.open:
        message = f"`{site.written(x)}` is one number: there is nothing to reduce"
        written = _OF_ONE.get(site.builtin.name, "{}").format(site.written(x))
        help = f"write {written}: what stands here is of one environment, or of one sample"
        site.fail(rules.SHAPE_MISMATCH, message, at=x, help=help)
        return None
    axes, keep = axes_of(site, x), bool(site.options.get("keep"))
    if not isinstance(axes, tuple):
        return _reduced_unknown(site, x, axes, keep=keep)
    places = [place_of(x.type.dims, axis) for axis in axes]
    if None in places:
        return replace(
            x.type, dims=inexact(x.type.dims, 0 if keep else -len(places)), broadcastable=frozenset()
        )
    name = site.builtin.name
    if name not in _OF_NOTHING and limits(counted(x.type.dims, axes))[1] == 0:
        message = f"`{site.written(x)}` has no elements: there is nothing to take the {name} of"
        site.fail(rules.SHAPE_MISMATCH, message, at=x)
        return None
    if keep:
        kept = tuple(1 if place in places else size for place, size in enumerate(x.type.dims))
        return Type(
            x.type.dtype,
            kept,
            x.type.level,
            broadcastable=frozenset(place for place in places if place is not None),
        )
    kept = tuple(size for place, size in enumerate(x.type.dims) if place not in places)
    return Type(x.type.dtype, kept, x.type.level)


def _by_name(axes: object) -> tuple[list[NamedAxis], tuple[Axis, ...]]:
    """The axes that have names, and the others."""
    given = axes if isinstance(axes, tuple) else (axes,) if isinstance(axes, NamedAxis) else ()
    named = [axis for axis in given if isinstance(axis, NamedAxis)]
    return named, tuple(axis for axis in given if not isinstance(axis, NamedAxis))


def _reduced_unknown(site: Site, x: Typed, axes: Typed | NamedAxis | None, *, keep: bool) -> Type | None:
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


def reduction(
    result: Callable[[str], str | None], operand: Callable[[str], str]
) -> Callable[[Site], Typed | None]:
    """The rule of a reduction of one value: the dtype that it computes in, and that of its result, by `operand`'s."""

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


def bool_dtype(dtype: str) -> str | None:
    """What truth values are reduced as; None for all others."""
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
    if isinstance(axes, NamedAxis):
        return x, f"dim={axes:d}"
    if isinstance(axes, Typed):
        return x, f"dim={printer.text(axes)}{keep}"
    dims = node.args[0].type.dims
    texts = [f"{axis:d}" if isinstance(axis, NamedAxis) else axis_text(axis, dims, printer) for axis in axes]
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


def count_of(node: Typed) -> Dim:
    """How many values one result is reduced from."""
    return counted(node.args[0].type.dims, cast("Axes", node.options["axis"]))


def counted(dims: Dims, axes: Axes) -> Dim:
    """How many elements there are along some axes."""
    if not isinstance(axes, tuple):
        return Sym.named("count")
    places = [None if isinstance(axis, NamedAxis) else place_of(dims, axis) for axis in axes]
    sizes = [Sym.named("count") if place is None else dims[place] for place in places]
    return product(size for size in sizes if not isinstance(size, Rest))
