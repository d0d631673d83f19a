"""Functions that put the elements of one array into another order or shape."""

from __future__ import annotations

from typing import cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.axes import node_axis, written_dims
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.scans import ONLY_AXIS, axis_of
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import divided, product
from specgen.expr.types import Type, Typed


def _has_rank(site: Site, x: Typed, least: int, help: str | None = None) -> bool:
    """Whether `x` is an array of `least` dimensions or more; reports when it is not."""
    text = site.written(x)
    if x.type.open:
        site.fail(rules.SHAPE_MISMATCH, f"`{text}` has an unknown rank", at=x)
        return False
    if x.type.python or x.type.rank < least:
        kind = "one number" if x.type.rank == 0 else f"{x.type}"
        message = f"`{text}` is {kind}: `{site.builtin.name}` has nothing to arrange"
        site.fail(rules.SHAPE_MISMATCH, message, at=x, help=help)
        return False
    return True


def _infer_reshape(site: Site) -> Typed | None:
    (x,) = site.values
    written = cast("tuple[int | Typed, ...]", site.options["shape"])
    shape = written_dims(written)
    if not _has_rank(site, x, 0):
        return None
    count = product(x.type.sizes)
    left = divided(count, product(size for size in shape if size != -1))
    if -1 in shape and left is not None:
        shape = tuple(left if size == -1 else size for size in shape)
    if product(shape) != count:
        held = f"{count} element{'s' if count != 1 else ''}"
        message = f"`{site.written(x)}` is {x.type}: its {held} do not fit into {list(shape)}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    settled = tuple(
        size if one == -1 and isinstance(size, int) else one for one, size in zip(written, shape, strict=True)
    )
    return site.node(Type(x.type.dtype, shape, x.type.level), shape=settled)


def _show_reshape(node: Typed, printer: Printer) -> Printed:
    x, rank = printer.logical(node.args[0]), node.args[0].type.rank
    dims = node.type.sizes
    if dims == node.args[0].type.dims:
        return x
    # By way of one axis: the batch dimensions in front are never named.
    line = (
        method(x, "flatten", str(-rank), "-1")
        if rank > 1
        else method(x, "unsqueeze", "-1")
        if rank == 0
        else x
    )
    if len(dims) == 1:
        return line
    if not dims:
        return method(line, "squeeze", "-1")
    # The function: torch's method of this name has no types.
    return printer.call("torch.unflatten", line.text, "-1", printer.shape(dims))


def _infer_flip(site: Site) -> Typed | None:
    (x,) = site.values
    if not _has_rank(site, x, 1):
        return None
    given = site.options["axis"]
    axes = tuple(range(x.type.rank)) if given is None else given
    return site.node(x.type, axis=axes)


def _show_flip(node: Typed, printer: Printer) -> Printed:
    axes = node.options["axis"]
    assert isinstance(axes, tuple)
    return method(printer.logical(node.args[0]), "flip", *(str(axis - node.type.rank) for axis in axes))


def _infer_roll(site: Site) -> Typed | None:
    (x,) = site.values
    axis = axis_of(site, x)
    if axis is None:
        return None
    return site.node(x.type, axis=axis, shift=site.options["shift"])


def _show_roll(node: Typed, printer: Printer) -> Printed:
    shift = node.options["shift"]
    assert isinstance(shift, Typed)
    x = printer.logical(node.args[0])
    return method(x, "roll", printer.text(shift), f"dims={node_axis(node, printer)}")


_X = Param("x")

LAYOUTS: tuple[Builtin, ...] = (
    Builtin(
        name="reshape",
        family="shape",
        doc="The elements of `x`, row by row, in another shape; one size may be -1, which is what remains: "
        "`reshape(x, -1)` is a vector.",
        params=(_X, Param("shape", "new_shape")),
        infer=_infer_reshape,
        interval=ranges.same,
        torch=_show_reshape,
        reference=lambda np, x, shape: np.reshape(x, shape),
    ),
    Builtin(
        name="flip",
        family="shape",
        doc="The elements in the opposite order along an axis, several axes, or all.",
        params=(_X, Param("axis", "axes", None)),
        infer=_infer_flip,
        interval=ranges.same,
        torch=_show_flip,
        reference=lambda np, x, axis: np.flip(x, axis),
    ),
    Builtin(
        name="roll",
        family="shape",
        doc="The elements moved by `shift` places along an axis; what leaves at one end enters at the other. The axis "
        "may be left out of a vector only. A shift that is computed is an index: `x[(arange(n) - shift) % n]`.",
        params=(_X, Param("shift", "int"), ONLY_AXIS),
        infer=_infer_roll,
        interval=ranges.same,
        torch=_show_roll,
        reference=lambda np, x, shift, axis: np.roll(x, shift, axis),
    ),
)
