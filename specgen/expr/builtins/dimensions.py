"""Functions that give, take and join dimensions: `permute`, `flatten`, `unflatten`, `squeeze`, `unsqueeze`."""

from __future__ import annotations

from typing import Any, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.axes import (
    Axis,
    axis_text,
    inexact,
    inserted,
    node_axis,
    place_of,
    written_dims,
)
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.interval import full
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import Dim, Dims, Rest, Sizes, Sym, at_most, product
from specgen.expr.types import Type, Typed
from specgen.values import replace


def _is_array(site: Site, x: Typed, least: int = 0) -> bool:
    """Whether `x` is an array of `least` dimensions or more; reports when it is not."""
    if not x.type.python and (x.type.open or x.type.rank >= least):
        return True
    kind = "one number" if x.type.python or x.type.rank == 0 else f"{x.type}"
    message = f"`{site.written(x)}` is {kind}: `{site.builtin.name}` has nothing to arrange"
    help = "a column is written x[:, None]" if least == 2 else None
    site.fail(rules.SHAPE_MISMATCH, message, at=x, help=help)
    return False


def _infer_permute(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1 if site.options["axes"] is not None else 2):
        return None
    rank, given, back = x.type.rank, site.options["axes"], site.options["inverse"]
    if x.type.open:
        return _permuted_open(site, x, given)
    axes = tuple(reversed(range(rank))) if given is None else given
    if isinstance(axes, Typed):
        return site.node(replace(x.type, dims=(Rest(),), broadcastable=frozenset()), axes=axes, inverse=back)
    assert isinstance(axes, tuple)
    wanted = list(range(rank - len(axes), rank))
    if sorted(axes) != wanted:
        message = f"`axes` names each of the {rank} axes of `{site.written(x)}` once, in their new order"
        site.fail(rules.WRONG_ARGUMENTS, message)
        return None
    whole = (*range(rank - len(axes)), *axes)
    whole = tuple(map(whole.index, range(rank))) if back else whole
    dims = tuple(x.type.dims[axis] for axis in whole)
    return site.node(Type(x.type.dtype, dims, x.type.level), axes=whole)


def _permuted_open(site: Site, x: Typed, given: object) -> Typed | None:
    back = site.options["inverse"]
    if isinstance(given, Typed):
        dims = inexact(x.type.dims)
        return site.node(replace(x.type, dims=dims, broadcastable=frozenset()), axes=given, inverse=back)
    axes = cast("tuple[Typed, ...]", given or ())
    places = [axis.static for axis in axes]
    if not places or sorted(cast("list[int]", places)) != list(range(-len(places), 0)):
        count = max(2, len(x.type.back))
        message = f"`axes` names each of the last axes of `{site.written(x)}` once, counted from the end"
        order = ", ".join(str(-axis) for axis in range(1, count + 1))
        site.fail(rules.WRONG_ARGUMENTS, message, help=f"such as ({order})")
        return None
    if back:
        named = {axis.static: axis for axis in axes}
        axes = tuple(named[places.index(place) - len(places)] for place in range(-len(places), 0))
        places = [axis.static for axis in axes]
    known = x.type.back
    if len(places) > len(known):
        dims = inexact(x.type.dims)
    else:
        ahead = x.type.dims[: len(x.type.dims) - len(places)]
        dims = (*ahead, *(known[cast("int", place)] for place in places))
    return site.node(Type(x.type.dtype, dims, x.type.level), axes=axes)


def _show_permute(node: Typed, printer: Printer) -> Printed:
    x, axes, rank = printer.logical(node.args[0]), node.options["axes"], node.type.rank
    if isinstance(axes, Typed):
        text = printer.text(axes)
        places = f"tuple({text})", f"tuple(range(-len({text}), 0))"
        return method(x, "movedim", *(reversed(places) if node.options["inverse"] else places))
    assert isinstance(axes, tuple)
    order = [axis - rank if isinstance(axis, int) else cast("int", axis.static) for axis in axes]
    moved = [(axis, place - len(order)) for place, axis in enumerate(order) if axis != place - len(order)]
    if not moved:
        return x
    if len(moved) == 2:
        return method(x, "transpose", *map(str, moved[0][::-1]))
    sources, places = zip(*moved, strict=True)
    return method(x, "movedim", tuple_text(map(str, sources)), tuple_text(map(str, places)))


def _permute_reference(np: Any, x: Any, axes: Any, inverse: bool = False) -> Any:
    kept = np.ndim(x) - len(axes)
    whole = (*range(kept), *(axis % np.ndim(x) for axis in axes))
    return np.transpose(x, np.argsort(whole) if inverse else whole)


def _infer_flatten(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1):
        return None
    dims, first, last = x.type.dims, cast("Axis", site.options["first"]), cast("Axis", site.options["last"])
    start, end = place_of(dims, first), place_of(dims, last)
    if start is not None and end is not None and end < start:
        message = f"the first axis, {start}, stands behind the last, {end}"
        site.fail(rules.WRONG_ARGUMENTS, message)
        return None
    sizes = None if start is None or end is None else dims[start : end + 1]
    if sizes is None or any(isinstance(size, Rest) for size in sizes):
        ends = (first, last) if isinstance(first, Typed) and isinstance(last, Typed) else None
        rest = Rest(_joined_name(x, first, last), joined=ends)
        kind = replace(x.type, dims=(rest,), broadcastable=frozenset())
        return site.node(kind, first=first, last=last)
    assert start is not None
    assert end is not None
    joined = product(cast("Sizes", sizes))
    kind = Type(x.type.dtype, (*dims[:start], joined, *dims[end + 1 :]), x.type.level)
    return site.node(kind, first=first, last=last)


def _joined_name(x: Typed, first: Axis, last: Axis) -> str:
    """What dimensions are called that are those of `x` with some of them made one."""
    rest = x.type.rest
    ends = (str(axis) if isinstance(axis, int) else _named(axis) for axis in (first, last))
    return f"flatten({rest.of if rest is not None else x.type}, {', '.join(ends)})"


def _named(node: Typed) -> str:
    if node.static is not None:
        return str(node.static)
    return node.text or f"{node.op}({', '.join(map(_named, node.args))})"


def _show_flatten(node: Typed, printer: Printer) -> Printed:
    dims = node.args[0].type.dims
    ends = [axis_text(cast("Axis", node.options[name]), dims, printer) for name in ("first", "last")]
    return method(printer.logical(node.args[0]), "flatten", *ends)


def _flatten_reference(np: Any, x: Any, first: int, last: int) -> Any:
    start, end = first % np.ndim(x), last % np.ndim(x)
    return np.reshape(x, (*x.shape[:start], -1, *x.shape[end + 1 :]))


def _infer_unflatten(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1):
        return None
    axis, sizes = cast("Axis", site.options["axis"]), site.options["sizes"]
    if isinstance(sizes, Typed):
        return _unflattened_like(site, x, axis, sizes)
    made = written_dims(sizes)
    place = place_of(x.type.dims, axis)
    if place is None:
        dims = inexact(x.type.dims, len(made) - 1)
        return site.node(replace(x.type, dims=dims, broadcastable=frozenset()), axis=axis, sizes=sizes)
    size = x.type.dims[place]
    assert not isinstance(size, Rest)
    if product(made) != size:
        message = f"a dimension of {size} is not {' * '.join(map(str, made))}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    dims = (*x.type.dims[:place], *made, *x.type.dims[place + 1 :])
    return site.node(Type(x.type.dtype, dims, x.type.level), axis=axis, sizes=sizes)


def _unflattened_like(site: Site, x: Typed, axis: Axis, sizes: Typed) -> Typed | None:
    """`unflatten(flatten(u, a, b), b, dims(u, a, b))` has the dimensions of `u`; others are not known."""
    rest = x.type.rest
    dims: Dims = (Rest(f"unflatten({rest.of if rest else x.type}, {_named(sizes)})"),)
    told = next((one for one in (sizes, *sizes.args) if one.op == "dims"), sizes)
    if told.op == "dims":
        like, ends = told.args[0], [cast("Axis", told.options[name]) for name in ("first", "last")]
        place = place_of(x.type.dims, axis)
        known = sizes.options.get("known")
        if rest is not None and rest.of == _joined_name(like, *ends):
            dims = like.type.dims
        elif place is not None and isinstance(known, tuple):
            made, size = cast("Sizes", known), x.type.dims[place]
            if product(made) != size:
                message = f"a dimension of {size} is not {' * '.join(map(str, made))}"
                site.fail(rules.SHAPE_MISMATCH, message)
                return None
            dims = (*x.type.dims[:place], *made, *x.type.dims[place + 1 :])
            if all(isinstance(one, int) for one in made):
                return site.node(Type(x.type.dtype, dims, x.type.level), axis=axis, sizes=made)
    return site.node(replace(x.type, dims=dims, broadcastable=frozenset()), axis=axis, sizes=sizes)


def _show_unflatten(node: Typed, printer: Printer) -> Printed:
    sizes = node.options["sizes"]
    text = (
        printer.text(sizes)
        if isinstance(sizes, Typed)
        else tuple_text(
            str(one) if isinstance(one, int) else printer.text(one)
            for one in cast("tuple[int | Typed, ...]", sizes)
        )
    )
    printer.texts.uses.add("torch")  # the method has no types
    x = printer.logical(node.args[0]).text
    return Printed(f"torch.unflatten({x}, {node_axis(node, printer)}, {text})")


def _unflatten_reference(np: Any, x: Any, axis: int, sizes: Any) -> Any:
    place = axis % np.ndim(x)
    return np.reshape(x, (*x.shape[:place], *sizes, *x.shape[place + 1 :]))


def _infer_dims(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1):
        return None
    first, last = cast("Axis", site.options["first"]), cast("Axis", site.options["last"])
    start, end = place_of(x.type.dims, first), place_of(x.type.dims, last)
    known = x.type.dims[start : end + 1] if start is not None and end is not None else ()
    sizes = tuple(size for size in known if isinstance(size, int | Sym))
    count: Dim = len(known) if known and len(sizes) == len(known) else Sym.named("dims")
    options: dict[str, Any] = {"known": sizes} if isinstance(count, int) else {}
    return site.node(Type("list", (count,), "ctor"), first=first, last=last, **options)


def _show_dims(node: Typed, printer: Printer) -> Printed:
    (x,) = node.args
    first, last = (cast("Axis", node.options[name]) for name in ("first", "last"))
    shape = f"{printer.logical(x).at(14)}.shape"
    dims = x.type.dims
    start = axis_text(first, dims, printer)
    if isinstance(last, int) or last.static is not None:
        end = int(axis_text(last, dims, printer)) + 1
        return Printed(f"{shape}[{start}:{end or ''}]")
    text = axis_text(last, dims, printer)
    return Printed(f"{shape}[{start} : {text if text.isidentifier() else f'({text})'} + 1 or None]")


def _dims_reference(np: Any, x: Any, first: int, last: int, **_: Any) -> Any:
    start, end = first % np.ndim(x), last % np.ndim(x)
    return tuple(np.shape(x)[start : end + 1])


def _infer_squeeze(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1):
        return None
    axis = cast("Axis", site.options["axis"])
    place = place_of(x.type.dims, axis)
    if place is None:
        return site.node(replace(x.type, dims=inexact(x.type.dims, -1), broadcastable=frozenset()), axis=axis)
    if x.type.dims[place] != 1:
        message = f"`{site.written(x)}` is {x.type}: a dimension of {x.type.dims[place]} cannot be left out"
        site.fail(rules.SHAPE_MISMATCH, message, help="of one element: x[0], or narrow(x, 0, 1)")
        return None
    dims = (*x.type.dims[:place], *x.type.dims[place + 1 :])
    return site.node(Type(x.type.dtype, dims, x.type.level), axis=axis)


def _infer_select(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x, 1):
        return None
    axis, index = cast("Axis", site.options["axis"]), cast("Typed", site.options["index"])
    place, here = place_of(x.type.dims, axis), index.static
    size = None if place is None else x.type.dims[place]
    if isinstance(here, int) and (here < 0 or (isinstance(size, int) and here >= size)):
        message = f"element {here} is not in a dimension of {size or 'a size that nobody knows'}"
        site.fail(rules.INDEX_UNPROVEN, message, at=index)
        return None
    named = index.interval.known_size
    if isinstance(named, Sym) and isinstance(size, int | Sym) and at_most(size, named):
        message = f"element {named} is not in a dimension of {size}"
        site.fail(rules.INDEX_UNPROVEN, message, at=index, help=f"the last one is {size - 1}")
        return None
    if place is None:
        dims = inexact(x.type.dims, -1)
        return site.node(replace(x.type, dims=dims, broadcastable=frozenset()), axis=axis, index=index)
    dims = (*x.type.dims[:place], *x.type.dims[place + 1 :])
    return site.node(Type(x.type.dtype, dims, x.type.level), axis=axis, index=index)


def _show_select(node: Typed, printer: Printer) -> Printed:
    index = cast("Typed", node.options["index"])
    return method(printer.logical(node.args[0]), "select", node_axis(node, printer), printer.text(index))


def _infer_unsqueeze(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_array(site, x):
        return None
    axis = cast("Axis", site.options["axis"])
    return site.node(Type(x.type.dtype, inserted(x.type.dims, axis, 1), x.type.level), axis=axis)


def _show_unsqueeze(node: Typed, printer: Printer) -> Printed:
    dim = axis_text(cast("Axis", node.options["axis"]), node.type.dims, printer)
    return method(printer.logical(node.args[0]), "unsqueeze", dim)


def _unsqueeze_reference(np: Any, x: Any, axis: int) -> Any:
    return np.expand_dims(x, axis)


_X = Param("x")

DIMENSIONS: tuple[Builtin, ...] = (
    Builtin(
        name="permute",
        form="permute(x, axes=None, inverse=false)",
        family="shape",
        doc="The axes of `x` in another order, the opposite one when none is said: `permute(x, (1, 2, 0))` puts the "
        "first axis last. Fewer axes are the last ones: `permute(image, (-1, -3, -2))`. `inverse` puts them back.",
        params=(_X, Param("axes", "order", None), Param("inverse", "flag", False)),
        infer=_infer_permute,
        interval=ranges.same,
        torch=_show_permute,
        reference=_permute_reference,
    ),
    Builtin(
        name="flatten",
        family="shape",
        doc="`x` with the axes from `first` to `last` made one.",
        params=(_X, Param("first", "axis", 0), Param("last", "axis", -1)),
        infer=_infer_flatten,
        interval=ranges.same,
        torch=_show_flatten,
        reference=_flatten_reference,
    ),
    Builtin(
        name="unflatten",
        family="shape",
        doc="`x` with an axis taken apart into several of these sizes, the way back from `flatten`: "
        "`unflatten(flat, -1, dims(x, -2, -1))`.",
        params=(_X, Param("axis", "axis"), Param("sizes", "sizes")),
        infer=_infer_unflatten,
        interval=ranges.same,
        torch=_show_unflatten,
        reference=_unflatten_reference,
    ),
    Builtin(
        name="dims",
        family="shape",
        doc="The sizes of `x` along the axes from `first` to `last`, for `unflatten`.",
        params=(_X, Param("first", "axis"), Param("last", "axis")),
        infer=_infer_dims,
        interval=lambda args, node: full("int64"),
        torch=_show_dims,
        reference=_dims_reference,
    ),
    Builtin(
        name="squeeze",
        family="shape",
        doc="`x` without an axis of one element.",
        params=(_X, Param("axis", "axis")),
        infer=_infer_squeeze,
        interval=ranges.same,
        torch=lambda node, printer: method(
            printer.logical(node.args[0]), "squeeze", node_axis(node, printer)
        ),
        reference=lambda np, x, axis: np.squeeze(x, axis),
    ),
    Builtin(
        name="select",
        family="shape",
        doc="The elements of `x` at one place along an axis, which is gone then: `x[:, i]`, for an axis that is a parameter.",
        params=(_X, Param("index", "int"), Param("axis", "axis", -1)),
        infer=_infer_select,
        interval=ranges.same,
        torch=_show_select,
        reference=lambda np, x, axis, index: np.take(x, index, axis=axis),
    ),
    Builtin(
        name="unsqueeze",
        family="shape",
        doc="`x` with a new axis of one element; one that broadcasts is written `x[:, None]`.",
        params=(_X, Param("axis", "new_axis")),
        infer=_infer_unsqueeze,
        interval=ranges.same,
        torch=_show_unsqueeze,
        reference=_unsqueeze_reference,
    ),
)
