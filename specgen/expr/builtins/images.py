"""Functions of images, whose rows and columns are the last two axes."""

from __future__ import annotations

from typing import Any, Final, cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_int, is_number
from specgen.expr.interval import Interval, full, loose
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Dim, limits, may_be_at_most
from specgen.expr.types import Type, Typed
from specgen.literals import literal

INTERPOLATIONS: Final = ("nearest", "bilinear", "bicubic")
"""How `resize` finds the values between pixels."""

_EXACT: Final = 2**52
"""Up to here float64 numbers, by which whole ones are computed, are less than a half apart."""


def is_between(node: Typed) -> bool:
    """Whether a `resize` gives nothing but means, with no negative weights, of what it takes."""
    return node.options["interpolation"] in INTERPOLATIONS[:2]


def _is_image(site: Site, x: Typed) -> bool:
    """Whether `x` has rows and columns; reports when it has not, or nothing says so."""
    if len(x.type.back) >= 2:
        return True
    help = "name them in the pattern: [..., H, W]" if x.type.open else None
    lacking = "its rows and columns are not known" if x.type.open else "an image has rows and columns"
    site.fail(rules.SHAPE_MISMATCH, f"`{site.written(x)}` is {x.type}: {lacking}", at=x, help=help)
    return False


def _size(site: Site, name: str) -> Dim | None:
    """How many rows or columns there shall be; reports what is no size."""
    length = site.options[name]
    assert isinstance(length, Typed)
    count = length.interval.known_size
    if count is None or limits(count)[1] < 1:
        message = f"`{site.written(length)}` is no size that is known at build"
        if count is not None:
            message = f"`{site.written(length)}` is no positive number of {name}"
        site.fail(rules.WRONG_ARGUMENTS, message, at=length)
        return None
    return count


def _infer_crop(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_image(site, x):
        return None
    cut: list[Dim] = []
    for first, length, axis in (("top", "rows", -2), ("left", "columns", -1)):
        start = site.options[first]
        assert isinstance(start, Typed)
        count = _size(site, length)
        if count is None:
            return None
        begin, size = start.interval.known_size, x.type.back[axis]
        inside = begin is None or may_be_at_most(begin + count, size)
        if not inside or start.interval.high < 0 or (begin is not None and limits(begin)[1] < 0):
            message = f"elements {begin} up to {begin if begin is None else begin + count} are not in a dimension of {size}"
            site.fail(rules.INDEX_UNPROVEN, message, at=start)
            return None
        cut.append(count)
    kind = Type(x.type.dtype, (*x.type.dims[:-2], *cut), x.type.level)
    return site.node(kind, **cast("dict[str, Any]", site.options))


def _show_crop(node: Typed, printer: Printer) -> Printed:
    printed = printer.logical(node.args[0])
    for first, length, axis in (("top", "rows", "-2"), ("left", "columns", "-1")):
        start, count = node.options[first], node.options[length]
        assert isinstance(start, Typed)
        assert isinstance(count, Typed)
        printed = method(printed, "narrow", axis, printer.text(start), printer.text(count))
    return printed


def _crop_reference(np: Any, x: Any, top: int, left: int, rows: int, columns: int) -> Any:
    return x[..., top : top + rows, left : left + columns]


def _infer_resize(site: Site) -> Typed | None:
    (x,) = site.values
    if not _is_image(site, x):
        return None
    if not is_number(x.type.dtype):
        message = f"`{site.written(x)}` is {x.type}: only numbers have values between them"
        site.fail(rules.WRONG_DTYPE, message, at=x, help="convert it: float32(x)")
        return None
    sizes = [_size(site, length) for length in ("rows", "columns")]
    dims = tuple(size for size in sizes if size is not None)
    if len(dims) < len(sizes):
        return None
    kind = Type(x.type.dtype, (*x.type.dims[:-2], *dims), x.type.level)
    return site.node(kind, **cast("dict[str, Any]", site.options))


def _resize_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    (x,) = args
    if node.options["interpolation"] == "nearest":
        return x
    dtype = node.type.dtype
    if not is_between(node) or max(abs(x.low), abs(x.high)) > _EXACT:
        return full(dtype)
    if is_int(dtype):
        return x
    # Weights, their sum, and what they give: three roundings for each pixel of a row and of a column.
    roundings = 3 * sum(limits(size)[1] for size in node.args[0].type.back[-2:])
    return loose(x, dtype, operations=roundings)


def _show_resize(node: Typed, printer: Printer) -> Printed:
    rows, columns, how = (node.options[name] for name in ("rows", "columns", "interpolation"))
    assert isinstance(rows, Typed)
    assert isinstance(columns, Typed)
    word = printer.text(how) if isinstance(how, Typed) else literal(how)
    image = printer.logical(node.args[0]).text
    return printer.call("resize_image", image, printer.text(rows), printer.text(columns), word)


def _resize_reference(np: Any, x: Any, rows: int, columns: int, interpolation: str) -> Any:
    image = np.asarray(x)
    whole = image.dtype.kind != "f"
    dtype = image.dtype if not whole else np.dtype("float64" if image.itemsize > 2 else "float32")
    made = image.astype(dtype)
    for axis, size in ((-1, columns), (-2, rows)):
        real = np.float32 if interpolation == "nearest" else dtype.type  # torch finds pixels with float32
        weights = np.asarray(_weights(real, image.shape[axis], size, interpolation), dtype)
        made = np.moveaxis(np.moveaxis(made, axis, -1) @ weights.T, -1, axis)
    if whole:
        limits = np.iinfo(image.dtype)
        made = np.clip(np.round(made), limits.min, limits.max)
    return made.astype(image.dtype)


def _weights(real: Any, size: int, wanted: int, interpolation: str) -> list[list[Any]]:
    """How much each of `size` pixels counts in each of the `wanted` ones, along one axis, computed by `real` numbers."""
    scale = real(size) / real(wanted)
    if interpolation == "nearest":
        places = [min(int(real(i) * scale), size - 1) for i in range(wanted)]
        return [[float(place == nearest) for place in range(size)] for nearest in places]
    shrunk = max(scale, real(1))
    reach, kernel = (1, _triangle) if interpolation == "bilinear" else (2, _cubic)
    rows = []
    for i in range(wanted):
        centre = scale * (i + 0.5)
        first = max(int(centre - reach * shrunk + 0.5), 0)
        last = min(int(centre + reach * shrunk + 0.5), size)
        row = [
            kernel((place - centre + 0.5) / shrunk) if first <= place < last else 0.0 for place in range(size)
        ]
        rows.append([one / sum(row) for one in row])
    return rows


def _triangle(x: Any) -> Any:
    return max(1.0 - abs(x), 0.0)


def _cubic(x: Any) -> Any:
    """The kernel of Keys (1981) with the slope -1/2."""
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


_X = Param("x")

IMAGES: tuple[Builtin, ...] = (
    Builtin(
        name="crop",
        family="shape",
        doc="So many rows and columns of an image, its last two axes, from the row `top` and the column `left` on.",
        params=(_X, *(Param(name, "int") for name in ("top", "left", "rows", "columns"))),
        infer=_infer_crop,
        interval=ranges.same,
        torch=_show_crop,
        reference=_crop_reference,
    ),
    Builtin(
        name="resize",
        family="shape",
        doc="An image, its last two axes, with so many rows and columns. `interpolation` is `nearest`, `bilinear` or "
        "`bicubic`, these two with antialiasing; whole numbers are rounded. `bicubic` can leave the range of the values.",
        params=(
            _X,
            Param("rows", "int"),
            Param("columns", "int"),
            Param("interpolation", "word", "bilinear", words=INTERPOLATIONS),
        ),
        infer=_infer_resize,
        interval=_resize_range,
        torch=_show_resize,
        reference=_resize_reference,
        agreement="ulp",
    ),
)
