"""Functions that put arrays together and take them apart."""

from __future__ import annotations

from typing import Any, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.axes import Axis, axis_text, inexact, inserted, place_of, resized
from specgen.expr.builtins.constants import number
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest, joined_open
from specgen.expr.interval import Interval
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import LARGEST, Dim, Dims, Rest, Sym, limits, may_be_at_most
from specgen.expr.types import Type, Typed
from specgen.precedence import ATOM, MUL
from specgen.values import replace


def _infer_stack(site: Site) -> Typed | None:
    dtype = site.joined(site.values, bools=True)
    shape = site.unified(site.values)
    if dtype is None or shape is None:
        return None
    axis = cast("Axis", site.options["axis"])
    level = "const" if shape.python else shape.level
    args = site.spread(site.cast(site.values, dtype), shape)
    count: Dim = _of_several(site) if any(value.several for value in site.values) else len(args)
    if shape.open:
        if any(arg.type.level != level for arg in args):
            site.fail(
                rules.SHAPE_MISMATCH, "a constant and a value with dimensions of its own cannot be stacked"
            )
            return None
        return site.node(Type(dtype, inserted(shape.dims, axis, count), level), args, axis=axis)
    assert isinstance(axis, int)
    return site.node(Type(dtype, inserted(shape.dims, axis, count), level), args, axis=axis)


def _show_stack(node: Typed, printer: Printer) -> Printed:
    axis = cast("Axis", node.options["axis"])
    dims, dtype = node.type.dims, node.type.dtype
    if all(arg.type.python for arg in node.args):
        values = tuple_text(printer.number(arg, dtype).text for arg in node.args)
        return printer.constant("tensor", values, dtype=dtype)
    batch = node.type.level == "batch"
    if isinstance(axis, int):
        inner = dims[:axis] + dims[axis + 1 :]
        texts = [printer.filled(arg, dtype, inner, batch=batch).text for arg in node.args]
    else:
        texts = [printer.show(arg).text for arg in node.args]
    parts = tuple_text(texts)
    if any(arg.op in ("spread", "among") or arg.type.axes != node.type.axes for arg in node.args):
        parts = printer.call("broadcast_tensors", *texts).text
    return printer.call("torch.stack", parts, f"dim={axis_text(axis, dims, printer)}")


def _infer_concat(site: Site) -> Typed | None:
    dtype = site.joined(site.values, bools=True)
    if dtype is None:
        return None
    first = site.values[0]
    axis = cast("Axis", site.options["axis"])
    level = highest(site.values)
    total: Dims | None = None
    for value in site.values:
        if not value.type.dims:
            help = "write stack(a, b) for a vector of numbers"
            site.fail(rules.SHAPE_MISMATCH, f"`{site.written(value)}` is one number", at=value, help=help)
            return None
        total = value.type.dims if total is None else _appended(total, value.type.dims, axis)
        if total is None:
            one, other = site.written(first), site.written(value)
            where = f"axis {axis}" if isinstance(axis, int) else "the axis"
            message = f"`{one}` is {first.type} and `{other}` is {value.type}: they differ off {where}"
            site.fail(rules.SHAPE_MISMATCH, message, at=value)
            return None
    assert total is not None
    if any(value.several for value in site.values):
        total = resized(total, axis, lambda size: _of_several(site))
        assert total is not None
    parts = [value for value in site.values if not _is_empty(value, axis)] or site.values[:1]
    return site.node(Type(dtype, total, level), site.cast(parts, dtype), axis=axis)


def _is_empty(value: Typed, axis: Axis) -> bool:
    place = place_of(value.type.dims, axis)
    return place is not None and value.type.dims[place] == 0


def _of_several(site: Site) -> Dim:
    """How much several values have together, of which nobody knows how many there are."""
    return Sym.named(f"{site.builtin.name}({', '.join(map(site.written, site.values))})")


def _appended(dims: Dims, other: Dims, axis: Axis) -> Dims | None:
    """The dimensions of two arrays one after the other; None where they differ off the axis."""
    here, there = Type("any", dims), Type("any", other)
    if here.open != there.open or (not here.open and len(dims) != len(other)):
        return None
    place, second = place_of(dims, axis), place_of(other, axis)
    if place is None or second is None:
        return _joined(inexact(dims), inexact(other))
    one, two = dims[place], other[second]
    assert not isinstance(one, Rest)
    assert not isinstance(two, Rest)
    rest, others = (*dims[:place], *dims[place + 1 :]), (*other[:second], *other[second + 1 :])
    same = _joined(rest, others) if here.open else rest if rest == others else None
    if same is None or len(same) != len(rest):
        return None if same is None else inexact(same, 1)
    return (*same[:place], one + two, *same[place:])


def _joined(dims: Dims, others: Dims) -> Dims | None:
    joined = joined_open(Type("any", dims), Type("any", others))
    return None if joined is None else joined.dims


def _show_concat(node: Typed, printer: Printer) -> Printed:
    axis = axis_text(cast("Axis", node.options["axis"]), node.type.dims, printer)
    if node.type.open:
        parts = [_concat_part(arg, axis, printer) for arg in node.args]
        if any(repeated for _, repeated in parts):
            pieces = [text if repeated else tuple_text([text]) for text, repeated in parts]
            return printer.call("torch.cat", " + ".join(pieces), f"dim={axis}")
        return printer.call("torch.cat", tuple_text(text for text, _ in parts), f"dim={axis}")
    batch = node.type.level == "batch"
    texts = [printer.filled(arg, node.type.dtype, arg.type.sizes, batch=batch).text for arg in node.args]
    return printer.call("torch.cat", tuple_text(texts), f"dim={axis}")


def _concat_part(arg: Typed, axis: str, printer: Printer) -> tuple[str, bool]:
    # A tile along the same axis is so many more parts; this also holds for none.
    if arg.op == "tile" and axis_text(cast("Axis", arg.options["axis"]), arg.type.dims, printer) == axis:
        count = arg.options["count"]
        assert isinstance(count, Typed)
        return f"({printer.text(arg.args[0])},) * {printer.text(count, MUL + 1)}", True
    return printer.text(arg), False


def _infer_tile(site: Site) -> Typed | None:
    (x,) = site.values
    axis, count = cast("Axis", site.options["axis"]), site.options["count"]
    assert isinstance(count, Typed)
    size = count.interval.known_size
    if size is None and x.type.open:
        dims: Dims | None = inexact(x.type.dims)
    elif size is None or limits(size)[0] < 0:
        message = "how often to repeat must be a whole number from 0, known at build"
        site.fail(rules.WRONG_ARGUMENTS, message, at=count)
        return None
    else:
        dims = resized(x.type.dims, axis, lambda here: here * size)
    assert dims is not None
    return site.node(Type(x.type.dtype, dims, x.type.level), axis=axis, count=count)


def _show_tile(node: Typed, printer: Printer) -> Printed:
    count, axis = node.options["count"], cast("Axis", node.options["axis"])
    assert isinstance(count, Typed)
    if not isinstance(axis, int):
        text = f"({printer.text(node.args[0])},) * {printer.text(count, MUL + 1)}"
        return printer.call("torch.cat", text, f"dim={axis_text(axis, node.type.dims, printer)}")
    repeats = [printer.text(count), *["1"] * (node.type.rank - axis - 1)]
    return method(printer.logical(node.args[0]), "tile", tuple_text(repeats))


def _infer_narrow(site: Site) -> Typed | None:
    (x,) = site.values
    axis, start, length = cast("Axis", site.options["axis"]), site.options["start"], site.options["length"]
    assert isinstance(start, Typed)
    place = place_of(x.type.dims, axis)
    if place is None:
        dims = inexact(x.type.dims)
        return site.node(replace(x.type, dims=dims), axis=axis, start=start, length=length)
    size = x.type.dims[place]
    assert not isinstance(size, Rest)
    first = start.interval.known_size
    count = (
        length.interval.known_size if isinstance(length, Typed) else None if first is None else size - first
    )
    if first is None and count is not None and start.type.python and _may_hold(site, size):
        dims = (*x.type.dims[:place], count, *x.type.dims[place + 1 :])
        kind = Type(x.type.dtype, dims, x.type.level)
        return site.node(kind, axis=axis, start=start, length=length, last=False)
    if first is None or count is None:
        site.fail(rules.WRONG_ARGUMENTS, "`start` and `length` must be known at build", at=start)
        return None
    if limits(first)[0] < 0 or not may_be_at_most(0, count) or not may_be_at_most(first + count, size):
        message = f"elements {first} up to {first + count} are not in a dimension of {size}"
        site.fail(rules.INDEX_UNPROVEN, message, at=start)
        return None
    dims = (*x.type.dims[:place], count, *x.type.dims[place + 1 :])
    kind = Type(x.type.dtype, dims, x.type.level)
    return site.node(kind, axis=axis, start=start, length=length, last=first + count == size)


def _may_hold(site: Site, size: Dim) -> bool:
    """Whether a slice is looked at once it is known: a chain knows the sizes, and torch when the class runs."""
    return site.context.for_any_key and not isinstance(size, int)


def _show_narrow(node: Typed, printer: Printer) -> Printed:
    x, start, length = node.args[0], node.options["start"], node.options["length"]
    axis = cast("Axis", node.options["axis"])
    assert isinstance(start, Typed)
    first, dim = printer.text(start), axis_text(axis, x.type.dims, printer)
    end = start.interval.known_size
    size = length.interval.known_size if isinstance(length, Typed) else None
    counted = (
        isinstance(end, int) and (size is None or isinstance(size, int)) and isinstance(length, Typed | None)
    )
    place = place_of(x.type.dims, axis)
    # A slice: where all that stands behind the axis is known, and its ends are numbers.
    if place is not None and not any(isinstance(one, Rest) for one in x.type.dims[place:]) and counted:
        last = node.options["last"] or length is None
        stop = "" if last or not isinstance(size, int) or not isinstance(end, int) else str(end + size)
        whole = [":"] * (len(x.type.dims) - place - 1)
        items = ["...", f"{end or ''}:{stop}", *whole]
        return Printed(f"{printer.logical(x).at(ATOM)}[{', '.join(items)}]")
    text = printer.logical(x).at(ATOM)
    count = (
        printer.text(length)
        if isinstance(length, Typed)
        else f"{text}.shape[{dim}] - {printer.text(start, MUL)}"
    )
    return Printed(f"{text}.narrow({dim}, {first}, {count})")


def _narrow_reference(np: Any, x: Any, axis: int, start: int, length: int | None = None, **_: Any) -> Any:
    stop = x.shape[axis] if length is None else start + length
    return np.take(x, np.arange(start, stop), axis=axis)


def _infer_size(site: Site) -> Typed | None:
    (x,) = site.values
    axis = cast("Axis", site.options["axis"])
    place = place_of(x.type.dims, axis)
    size = None if place is None else x.type.dims[place]
    if not isinstance(size, int):
        return site.node(Type("int64", (), "ctor"), axis=axis)
    return number(site, size, "int64")


def _size_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    dims = node.args[0].type.dims
    place = place_of(dims, cast("Axis", node.options["axis"]))
    size = None if place is None else dims[place]
    return Interval(0, LARGEST) if size is None or isinstance(size, Rest) else Interval.of_size(size)


def _show_size(node: Typed, printer: Printer) -> Printed:
    (x,) = node.args
    dim = axis_text(cast("Axis", node.options["axis"]), x.type.dims, printer)
    return Printed(f"{printer.logical(x).at(ATOM)}.shape[{dim}]")


_X = Param("x")

SHAPES: tuple[Builtin, ...] = (
    Builtin(
        name="stack",
        form="stack(a, b, …, axis=0)",
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
        form="concat(a, b, …, axis=0)",
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
        family="shape",
        doc="How many elements `x` has along an axis; a number that is known at build when the shape is.",
        params=(_X, Param("axis", "axis", -1)),
        infer=_infer_size,
        interval=_size_range,
        torch=_show_size,
        reference=lambda np, x, axis: x.shape[axis],
    ),
)
