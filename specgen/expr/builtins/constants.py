"""Constant arrays, conversions between dtypes, and `stop_grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.axes import written_dims
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import CONCRETE, INT_RANGES, holds, is_abstract, is_float, is_int
from specgen.expr.interval import Interval, full, monotone, store
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Dims, limits
from specgen.expr.types import Static, Type, Typed
from specgen.values import replace

_COMPUTED: Final = "a number or a parameter fills an array; for what is computed write `zeros(shape) + value`"


def number(site: Site, value: Static, dtype: str) -> Typed:
    """A literal of this call."""
    assert not isinstance(value, str)
    kind = Type(dtype, (), "lit")
    return Typed("literal", kind, Interval(value, value), start=site.start, end=site.end, static=value)


def _filled(name: str, value: float) -> Builtin:
    def infer(site: Site) -> Typed | None:
        dims, dtype = written_dims(site.options["shape"]), str(site.options["dtype"] or "float32")
        if not dims:
            return number(
                site, value if is_float(dtype) else bool(value) if dtype == "bool" else int(value), dtype
            )
        return site.node(Type(dtype, dims, "const"), shape=site.options["shape"])

    def show(node: Typed, printer: Printer) -> Printed:
        return printer.constant(name, printer.shape(node.type.dims), dtype=node.type.dtype)

    def reference(np: Any, shape: Dims, **_: Any) -> Any:
        return np.full(shape, value)

    return Builtin(
        name=name,
        form=f"{name}(shape=(), dtype=float32)",
        family="constant",
        doc=f"An array of {'zeros' if value == 0 else 'ones'}.",
        params=(Param("shape", "shape", ()), Param("dtype", "dtype", None)),
        infer=infer,
        interval=lambda args, node: Interval(value, value),
        torch=show,
        reference=reference,
    )


def _infer_full(site: Site) -> Typed | None:
    (value,) = site.values
    if not value.type.python:
        message = f"`{site.written(value)}` is no number but {value.type}"
        site.fail(rules.WRONG_ARGUMENTS, message, at=value, help=_COMPUTED)
        return None
    dtype = str(site.options["dtype"] or value.type.dtype)
    if not _takes(site, value, dtype):
        return None
    dims = written_dims(site.options["shape"])
    if not dims:
        return value
    return site.node(Type(dtype, dims, "const"), shape=site.options["shape"])


def _takes(site: Site, value: Typed, dtype: str) -> bool:
    kind = value.type.dtype
    if is_abstract(dtype):
        return True
    narrower = (is_float(kind) and not is_float(dtype)) or (dtype == "bool") != (kind == "bool")
    static = value.static
    outside = static is not None and not isinstance(static, str) and not holds(dtype, static)
    if narrower or outside:
        site.fail(rules.LITERAL_RANGE, f"`{site.written(value)}` does not fit into {dtype}", at=value)
        return False
    return True


def _show_full(node: Typed, printer: Printer) -> Printed:
    shape = printer.shape(node.type.dims)
    value = printer.number(node.args[0], node.type.dtype).text
    return printer.constant("full", shape, value, dtype=node.type.dtype)


def _like(name: str, value: float) -> Builtin:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        if x.type.python:
            dtype = x.type.dtype
            return number(
                site, value if is_float(dtype) else bool(value) if dtype == "bool" else int(value), dtype
            )
        return site.node(x.type)

    def show(node: Typed, printer: Printer) -> Printed:
        return printer.call(f"torch.{name}", printer.text(node.args[0]))

    return Builtin(
        name=name,
        family="constant",
        doc=f"{'Zeros' if value == 0 else 'Ones'} with the shape and the dtype of `x`.",
        params=(Param("x"),),
        infer=infer,
        interval=lambda args, node: Interval(value, value),
        torch=show,
        reference=lambda np, x: np.full_like(x, value),
        layout=lambda args: args,
    )


def _infer_full_like(site: Site) -> Typed | None:
    x, value = site.values
    if not value.type.python:
        message = f"`{site.written(value)}` is no number but {value.type}"
        site.fail(rules.WRONG_ARGUMENTS, message, at=value, help=_COMPUTED)
        return None
    return site.node(x.type) if _takes(site, value, x.type.dtype) else None


def _show_full_like(node: Typed, printer: Printer) -> Printed:
    x, value = node.args
    if node.type.python:
        return printer.number(value, node.type.dtype)
    return printer.call("torch.full_like", printer.text(x), printer.number(value, node.type.dtype).text)


def _infer_arange(site: Site) -> Typed | None:
    count = site.options["n"]
    assert isinstance(count, Typed)
    size = count.interval.known_size
    if size is None or limits(size)[0] < 1:
        message = "the number of values must be a whole number from 1, known at build"
        site.fail(rules.WRONG_ARGUMENTS, message, at=count)
        return None
    return site.node(Type("int64", (size,), "const"), n=count)


def _show_arange(node: Typed, printer: Printer) -> Printed:
    return printer.constant("arange", printer.size(node.type.sizes[0]), dtype="int64")


def _infer_cast(dtype: str) -> Callable[[Site], Typed | None]:
    def infer(site: Site) -> Typed | None:
        (x,) = site.values
        if x.type.dtype == "str":
            site.fail(rules.WRONG_DTYPE, f"`{site.written(x)}` is a word, not a number", at=x)
            return None
        if x.type.dtype == dtype:
            return x
        static = _converted(x.static, dtype)
        values = cast_range(x.interval, dtype) if static is None else Interval(static, static)
        kind = replace(x.type, dtype=dtype)
        return Typed(
            "cast", kind, values, (x,), start=site.start, end=site.end, static=static, builtin=site.builtin
        )

    return infer


def _converted(value: Static | None, dtype: str) -> int | float | None:
    if value is None or isinstance(value, str):
        return None
    if dtype == "bool":
        return bool(value)
    try:
        return float(value) if is_float(dtype) else int(value)
    except (OverflowError, ValueError):
        return None


def cast_range(x: Interval, dtype: str) -> Interval:
    """The values of `x` in another dtype."""
    if dtype == "bool":
        return full(dtype)
    if is_int(dtype):
        low, high = INT_RANGES[dtype]
        if x.nan or x.low <= low - 1 or x.high >= high + 1:
            return full(dtype)
        return monotone(int, x)
    return store(x, dtype)


def _cast(dtype: str) -> Builtin:
    what = "truth values: everything but 0 is true" if dtype == "bool" else dtype
    rounded = "; fractions are cut off" if is_int(dtype) else ""
    return Builtin(
        name=dtype,
        family="cast",
        doc=f"`x` as {what}{rounded}.",
        params=(Param("x"),),
        infer=_infer_cast(dtype),
        interval=lambda args, node: cast_range(args[0], dtype),
        torch=lambda node, printer: printer.show(node),
        reference=lambda np, x: np.asarray(x).astype(dtype),
    )


def _infer_stop_grad(site: Site) -> Typed | None:
    (x,) = site.values
    return x if x.type.python else site.node(x.type)


CASTS: Final[dict[str, Builtin]] = {dtype: _cast(dtype) for dtype in CONCRETE}
"""The conversions to a dtype, by its name."""

CONSTANTS: tuple[Builtin, ...] = (
    _filled("zeros", 0.0),
    _filled("ones", 1.0),
    Builtin(
        name="full",
        family="constant",
        doc="An array of one number, of the dtype of the number unless another is named.",
        params=(Param("shape", "shape"), Param("value"), Param("dtype", "dtype", None)),
        infer=_infer_full,
        interval=ranges.same,
        torch=_show_full,
        reference=lambda np, value, shape, **_: np.full(shape, value),
    ),
    _like("zeros_like", 0.0),
    _like("ones_like", 1.0),
    Builtin(
        name="full_like",
        family="constant",
        doc="One number with the shape and the dtype of `x`.",
        params=(Param("x"), Param("value")),
        infer=_infer_full_like,
        interval=lambda args, node: args[1],
        torch=_show_full_like,
        reference=lambda np, x, value: np.full_like(x, value),
        layout=lambda args: args[:1],
    ),
    Builtin(
        name="arange",
        family="constant",
        doc="The int64 vector 0, 1, …, n - 1.",
        params=(Param("n", "int"),),
        infer=_infer_arange,
        interval=lambda args, node: Interval.indices(node.type.sizes[0]),
        torch=_show_arange,
        reference=lambda np, n: np.arange(n),
    ),
    Builtin(
        name="stop_grad",
        family="constant",
        doc="`x`, through which no gradient flows.",
        params=(Param("x"),),
        infer=_infer_stop_grad,
        interval=ranges.same,
        torch=lambda node, printer: method(printer.show(node.args[0]), "detach"),
        reference=lambda np, x: x,
        layout=lambda args: args,
    ),
    *CASTS.values(),
)
