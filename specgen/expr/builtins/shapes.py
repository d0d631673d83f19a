"""Functions that put arrays together and take them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest
from specgen.expr.interval import Interval
from specgen.expr.printer import ATOM, MUL, Printed, Printer, method, tuple_text
from specgen.expr.types import Dims, Size, Type, Typed


def _infer_stack(site: Site) -> Typed | None:
    dtype = site.joined(site.values, bools=True)
    shape = site.unified(site.values)
    if dtype is None or shape is None:
        return None
    if shape.dims is None:
        site.fail(
            rules.SHAPE_MISMATCH, "arrays of unknown rank cannot be stacked", help="concat them along an axis"
        )
        return None
    axis = site.options["axis"]
    assert isinstance(axis, int)
    dims = (*shape.dims[:axis], len(site.values), *shape.dims[axis:])
    level = "const" if shape.python else shape.level
    return site.node(Type(dtype, dims, level), site.cast(site.values, dtype), axis=axis)


def _show_stack(node: Typed, printer: Printer) -> Printed:
    axis = node.options["axis"]
    assert isinstance(axis, int)
    dims = node.type.dims or ()
    inner = dims[:axis] + dims[axis + 1 :]
    dtype = node.type.dtype
    if all(arg.type.python for arg in node.args):
        values = tuple_text(printer.number(arg, dtype).text for arg in node.args)
        return printer.constant("tensor", values, dtype=dtype)
    batch = node.type.level == "batch"
    texts = [printer.filled(arg, dtype, inner, batch=batch).text for arg in node.args]
    return printer.call("torch.stack", tuple_text(texts), f"dim={axis - len(dims)}")


def _infer_concat(site: Site) -> Typed | None:
    dtype = site.joined(site.values, bools=True)
    if dtype is None:
        return None
    first = site.values[0]
    axis = site.options["axis"]
    level = highest(site.values)
    if any(value.type.dims is None for value in site.values):
        if any(value.type.dims is not None for value in site.values):
            site.fail(rules.SHAPE_MISMATCH, "arrays of known and unknown rank cannot be put together")
            return None
        return site.node(Type(dtype, None, level), site.cast(site.values, dtype), axis=axis)
    assert isinstance(axis, int)
    total = 0
    for value in site.values:
        dims = value.type.dims or ()
        if not dims:
            help = "write stack(a, b) for a vector of numbers"
            site.fail(rules.SHAPE_MISMATCH, f"`{site.written(value)}` is one number", at=value, help=help)
            return None
        if len(dims) != first.type.rank or _without(dims, axis) != _without(first.type.dims or (), axis):
            one, other = site.written(first), site.written(value)
            message = f"`{one}` is {first.type} and `{other}` is {value.type}: they differ off axis {axis}"
            site.fail(rules.SHAPE_MISMATCH, message, at=value)
            return None
        total += dims[axis]
    dims = first.type.dims or ()
    result = (*dims[:axis], total, *dims[axis + 1 :])
    return site.node(Type(dtype, result, level), site.cast(site.values, dtype), axis=axis)


def _without(dims: Sequence[int], axis: int) -> Dims:
    return (*dims[:axis], *dims[axis + 1 :])


def axis_text(node: Typed, printer: Printer) -> str:
    """The axis of `node`, counted from the end; an expression when the rank is unknown."""
    axis = node.options["axis"]
    if isinstance(axis, Typed):
        return printer.text(axis)
    assert isinstance(axis, int)
    return str(axis - node.args[0].type.rank)


def _show_concat(node: Typed, printer: Printer) -> Printed:
    axis = axis_text(node, printer)
    if node.type.dims is None:
        parts = [_concat_part(arg, axis, printer) for arg in node.args]
        if any(repeated for _, repeated in parts):
            pieces = [text if repeated else tuple_text([text]) for text, repeated in parts]
            return printer.call("torch.cat", " + ".join(pieces), f"dim={axis}")
        return printer.call("torch.cat", tuple_text(text for text, _ in parts), f"dim={axis}")
    batch = node.type.level == "batch"
    texts = [printer.filled(arg, node.type.dtype, arg.type.dims or (), batch=batch).text for arg in node.args]
    return printer.call("torch.cat", tuple_text(texts), f"dim={axis}")


def _concat_part(arg: Typed, axis: str, printer: Printer) -> tuple[str, bool]:
    # A tile along the same axis is so many more parts; this also holds for none.
    if arg.op == "tile" and axis_text(arg, printer) == axis:
        count = arg.options["count"]
        assert isinstance(count, Typed)
        return f"({printer.text(arg.args[0])},) * {printer.text(count, MUL + 1)}", True
    return printer.text(arg), False


def _infer_tile(site: Site) -> Typed | None:
    (x,) = site.values
    axis, count = site.options["axis"], site.options["count"]
    assert isinstance(count, Typed)
    if x.type.dims is None:
        return site.node(x.type, axis=axis, count=count)
    assert isinstance(axis, int)
    if not isinstance(count.static, int) or count.static < 1:
        site.fail(
            rules.WRONG_ARGUMENTS,
            "how often to repeat must be a whole number from 1, known at build",
            at=count,
        )
        return None
    dims = list(x.type.dims)
    dims[axis] *= count.static
    return site.node(Type(x.type.dtype, tuple(dims), x.type.level), axis=axis, count=count)


def _show_tile(node: Typed, printer: Printer) -> Printed:
    count = node.options["count"]
    assert isinstance(count, Typed)
    if node.type.dims is None:
        text = f"({printer.text(node.args[0])},) * {printer.text(count, MUL + 1)}"
        return printer.call("torch.cat", text, f"dim={axis_text(node, printer)}")
    axis = node.options["axis"]
    assert isinstance(axis, int)
    repeats = [printer.text(count), *["1"] * (node.type.rank - axis - 1)]
    return method(printer.logical(node.args[0]), "tile", tuple_text(repeats))


def _infer_narrow(site: Site) -> Typed | None:
    (x,) = site.values
    axis, start, length = site.options["axis"], site.options["start"], site.options["length"]
    assert isinstance(start, Typed)
    if x.type.dims is None:
        return site.node(x.type, axis=axis, start=start, length=length)
    assert isinstance(axis, int)
    size = x.type.dims[axis]
    first = start.static
    count = length.static if isinstance(length, Typed) else size - first if isinstance(first, int) else None
    if not isinstance(first, int) or not isinstance(count, int):
        site.fail(rules.WRONG_ARGUMENTS, "`start` and `length` must be known at build", at=start)
        return None
    if first < 0 or count < 1 or first + count > size:
        message = f"elements {first} up to {first + count} are not in a dimension of {size}"
        site.fail(rules.INDEX_UNPROVEN, message, at=start)
        return None
    dims = (*x.type.dims[:axis], count, *x.type.dims[axis + 1 :])
    return site.node(
        Type(x.type.dtype, dims, x.type.level), axis=axis, start=start, length=length, stop=first + count
    )


def _show_narrow(node: Typed, printer: Printer) -> Printed:
    x, start, length = node.args[0], node.options["start"], node.options["length"]
    assert isinstance(start, Typed)
    if node.type.dims is None:
        axis = axis_text(node, printer)
        text = printer.text(x, ATOM)
        first = printer.text(start)
        count = (
            printer.text(length)
            if isinstance(length, Typed)
            else f"{text}.shape[{axis}] - {printer.text(start, MUL)}"
        )
        return Printed(f"{text}.narrow({axis}, {first}, {count})")
    axis_at = node.options["axis"]
    assert isinstance(axis_at, int)
    stop = node.options["stop"]
    whole = [":"] * (node.type.rank - axis_at - 1)
    size = (x.type.dims or ())[axis_at]
    cut = f"{start.static or ''}:{'' if stop == size else stop}"
    return Printed(f"{printer.logical(x).at(ATOM)}[{', '.join(['...', cut, *whole])}]")


def _narrow_reference(np: Any, x: Any, axis: int, start: int, length: int | None = None, **_: Any) -> Any:
    stop = x.shape[axis] if length is None else start + length
    return np.take(x, np.arange(start, stop), axis=axis)


def _infer_size(site: Site) -> Typed | None:
    (x,) = site.values
    axis = site.options["axis"]
    if x.type.dims is None:
        return site.node(Type("int64", (), "ctor"), axis=axis)
    assert isinstance(axis, int)
    if isinstance(x.type.dims[axis], Size):
        return site.node(Type("int64", (), "ctor"), axis=axis)
    return Typed(
        "literal",
        Type("int64", (), "lit"),
        Interval(x.type.dims[axis], x.type.dims[axis]),
        start=site.start,
        end=site.end,
        static=x.type.dims[axis],
    )


def _size_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    dims, axis = node.args[0].type.dims, node.options["axis"]
    if dims is None:
        return Interval(0, 2**31)
    assert isinstance(axis, int)
    return Interval(dims[axis], dims[axis])


def _show_size(node: Typed, printer: Printer) -> Printed:
    return Printed(f"{printer.text(node.args[0], ATOM)}.shape[{axis_text(node, printer)}]")


_X = Param("x")

SHAPES: tuple[Builtin, ...] = (
    Builtin(
        name="stack",
        signature="stack(a, b, …, axis=0)",
        family="shape",
        doc="The values side by side along a new axis: `stack(cos(th), sin(th))` is a vector of two.",
        params=(Param("values", variadic=True), Param("axis", "new_axis", 0)),
        infer=_infer_stack,
        interval=ranges.hull,
        torch=_show_stack,
        reference=lambda np, *values, axis: np.stack(np.broadcast_arrays(*values), axis=axis),
    ),
    Builtin(
        name="concat",
        signature="concat(a, b, …, axis=0)",
        family="shape",
        doc="The values one after the other along an axis that they have; the other dimensions are equal.",
        params=(Param("values", variadic=True), Param("axis", "axis", 0)),
        infer=_infer_concat,
        interval=ranges.hull,
        torch=_show_concat,
        reference=lambda np, *values, axis: np.concatenate(values, axis=axis),
    ),
    Builtin(
        name="tile",
        signature="tile(x, count, axis=-1)",
        family="shape",
        doc="`x` repeated `count` times along an axis.",
        params=(_X, Param("count", "int"), Param("axis", "axis", -1)),
        infer=_infer_tile,
        interval=ranges.same,
        torch=_show_tile,
        reference=lambda np, x, count, axis: np.concatenate([x] * count, axis=axis),
    ),
    Builtin(
        name="narrow",
        signature="narrow(x, start, length=None, axis=-1)",
        family="shape",
        doc="`length` elements of `x` from `start` on along an axis, all that follow when there is no length.",
        params=(_X, Param("start", "int"), Param("length", "int", None), Param("axis", "axis", -1)),
        infer=_infer_narrow,
        interval=ranges.same,
        torch=_show_narrow,
        reference=_narrow_reference,
    ),
    Builtin(
        name="size",
        signature="size(x, axis=-1)",
        family="shape",
        doc="How many elements `x` has along an axis; a number that is known at build when the shape is.",
        params=(_X, Param("axis", "axis", -1)),
        infer=_infer_size,
        interval=_size_range,
        torch=_show_size,
        reference=lambda np, x, axis: x.shape[axis],
    ),
)
