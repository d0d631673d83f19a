"""Random draws: numbered sites, arguments of the pure function that the adapter around it draws."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.axes import written_dims
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import FLOAT_RANGES, is_float, is_int
from specgen.expr.interval import NUMBERS, Interval
from specgen.expr.printer import Printed, Printer
from specgen.expr.sizes import Dims
from specgen.expr.types import DrawKind, Type, Typed
from specgen.precedence import ADD, COMPARE, MUL, UNARY


def drawn_site(
    site: Site, kind: DrawKind, dims: Dims, dtype: str, low: int | None = None, high: int | None = None
) -> Typed:
    """The node that reads a new draw."""
    drawn = site.draw(kind, dims, dtype, low, high)
    values = (
        Interval(low or 0, (high or 1) - 1)
        if kind == "randint"
        else Interval(0, 1)
        if kind == "uniform"
        else NUMBERS
    )
    return Typed(
        "site",
        Type(dtype, dims, "batch", col=drawn.col),
        values,
        start=site.start,
        end=site.end,
        text=drawn.name,
        site=drawn,
    )


def drawn_dims(site: Site, values: Sequence[Typed]) -> Dims | None:
    """The shape of the draw: what `shape=` says, else the shape of the parameters."""
    given, like = site.options["shape"], site.options.get("like")
    shape = site.unified(values) if values else Type("bool", (), "lit")
    if shape is None:
        return None
    if isinstance(like, Typed):
        return _like_dims(site, shape, like)
    if shape.open:
        site.fail(rules.SHAPE_MISMATCH, "a draw needs a known shape", help="say shape=")
        return None
    if given is None:
        return shape.dims
    given = written_dims(given)
    if shape.dims not in ((), given):
        message = f"shape={list(given)} does not fit parameters of shape {list(shape.dims)}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    return given


def _like_dims(site: Site, shape: Type, like: Typed) -> Dims | None:
    """The dimensions of another value, in which parameters have the same or none."""
    if site.options["shape"] is not None:
        site.fail(rules.WRONG_ARGUMENTS, "`shape` and `like` both say the shape of the draw")
        return None
    if shape.dims not in ((), like.type.dims):
        message = (
            f"`{site.written(like)}` is {like.type} and does not fit parameters of shape {list(shape.dims)}"
        )
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    return like.type.dims


def _ready(site: Site, dims: Dims, dtype: str) -> tuple[Typed, ...]:
    """The parameters of a draw of these dimensions."""
    return site.spread(site.cast(site.values, dtype), Type("bool", dims))


def _infer_spread(site: Site) -> Typed | None:
    """`uniform(low, high)`, `normal(mean, std)`, `exponential(scale)`: a standard draw, moved and scaled."""
    kind: DrawKind = "normal" if site.builtin.name == "normal" else "uniform"
    dtype, dims = _float_dtype(site), drawn_dims(site, site.values)
    if dtype is None or dims is None:
        return None
    _parameters_make_sense(site)
    args = (*_ready(site, dims, dtype), drawn_site(site, kind, dims, dtype))
    return site.node(Type(dtype, dims, "batch"), args, operand_dtype=dtype)


def _float_dtype(site: Site) -> str | None:
    """The dtype of what is drawn: as said, else of the tensors it depends on, else of `like`, else of the target."""
    dtype = site.joined(site.values)
    if dtype is None:
        return None
    wanted, like = site.options["dtype"], site.options.get("like")
    if wanted is None:
        tensors = any(not value.type.python for value in site.values)
        wanted = dtype if tensors and is_float(dtype) else site.context.float_dtype
        if not tensors and isinstance(like, Typed) and is_float(like.type.dtype):
            wanted = like.type.dtype
    if not is_float(str(wanted)):
        site.fail(
            rules.WRONG_ARGUMENTS,
            f"`{site.builtin.name}` draws floats, not {wanted}",
            help="write randint(low, high)",
        )
        return None
    return str(wanted)


def _parameters_make_sense(site: Site) -> None:
    """Report ends in the wrong order, and a deviation or a scale below zero."""
    first, last = site.values[0], site.values[-1]
    text = site.written(last)
    if site.builtin.name == "uniform" and first.interval.low > last.interval.high:
        low = site.written(first)
        message = f"the draw is from `low` up to `high`, and `{low}` is greater than `{text}`"
        site.fail(rules.WRONG_ARGUMENTS, message, at=last, help=f"write uniform({text}, {low})")
    if site.builtin.name != "uniform" and last.interval.high < 0:
        what = "standard deviation" if site.builtin.name == "normal" else "mean waiting time"
        site.fail(rules.WRONG_ARGUMENTS, f"a {what} is not negative, and `{text}` is", at=last)


def _show_uniform(node: Typed, printer: Printer) -> Printed:
    low, high, drawn = (printer.aligned(arg, node.type.rank, node.type.col) for arg in node.args)
    span = _span(node, printer, low, high)
    scaled = drawn if span is None else Printed(f"{span.at(MUL)} * {drawn.at(MUL + 1)}", MUL)
    if node.args[0].static == 0:
        return scaled
    return Printed(f"{low.at(ADD)} + {scaled.at(ADD + 1)}", ADD)


def _span(node: Typed, printer: Printer, low: Printed, high: Printed) -> Printed | None:
    """`high - low`, or None when it is 1."""
    first, last = node.args[0].static, node.args[1].static
    if first == 0:
        return None if last == 1 else high
    if low.text in (f"-{high.text}", f"-({high.text})"):
        # -pi to pi: the width reads better as 2 * pi.
        return (
            Printed(f"2 * {high.at(MUL)}", MUL)
            if "math" in high.text or last is None
            else printer.texts.static(2 * last)
        )
    if node.args[0].op == node.args[1].op == "literal" and first is not None and last is not None:
        assert not isinstance(first, str)
        assert not isinstance(last, str)
        return printer.texts.static(_difference(last, first, node.type.dtype))
    return Printed(f"{high.at(ADD)} - {low.at(ADD + 1)}", ADD)


def _difference(last: float, first: float, dtype: str) -> float:
    """`last - first`; as it is written on paper (0.2, not 0.19999999999999996) where `dtype` can't tell the two."""
    exact = last - first
    neat = type(exact)(Decimal(str(last)) - Decimal(str(first)))
    if dtype != "float32" or abs(exact) > FLOAT_RANGES[dtype]:
        return exact
    return neat if struct.pack("f", neat) == struct.pack("f", exact) else exact


def _show_normal(node: Typed, printer: Printer) -> Printed:
    mean, std, drawn = (printer.aligned(arg, node.type.rank, node.type.col) for arg in node.args)
    scaled = drawn if node.args[1].static == 1 else Printed(f"{std.at(MUL)} * {drawn.at(MUL + 1)}", MUL)
    return scaled if node.args[0].static == 0 else Printed(f"{mean.at(ADD)} + {scaled.at(ADD + 1)}", ADD)


def _show_exponential(node: Typed, printer: Printer) -> Printed:
    scale, drawn = (printer.aligned(arg, node.type.rank, node.type.col) for arg in node.args)
    # The draw is in [0, 1): the logarithm of 1 minus it is finite.
    one = Printed(f"-{printer.call('torch.log1p', f'-{drawn.at(UNARY + 1)}').text}", UNARY)
    return one if node.args[0].static == 1 else Printed(f"{scale.at(MUL)} * {one.at(UNARY)}", MUL)


def _exponential_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    scale, _ = args
    low, high = (-math.inf if scale.low < 0 else 0.0), (math.inf if scale.high > 0 else 0.0)
    return Interval(low, high, scale.nan or not scale.bounded)


def _spread_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    low, high, _ = args
    # Rounding can carry the largest draw up to `high` itself.
    return Interval(min(low.low, high.low), max(low.high, high.high), low.nan or high.nan)


def _infer_randint(site: Site) -> Typed | None:
    low, high = site.values
    for value in site.values:
        if not is_int(value.type.dtype):
            text = site.written(value)
            site.fail(
                rules.WRONG_DTYPE, f"`{text}` is {value.type}; the ends of randint are integers", at=value
            )
            return None
    dims = drawn_dims(site, site.values)
    if dims is None:
        return None
    if high.interval.high <= low.interval.low:
        message = (
            f"there is no integer from {int(low.interval.low)} up to {int(high.interval.high)} without it"
        )
        site.fail(rules.WRONG_ARGUMENTS, message, at=high)
        return None
    dtype = str(site.options["dtype"] or "int64")
    if not is_int(dtype):
        site.fail(
            rules.WRONG_ARGUMENTS, f"`randint` draws integers, not {dtype}", help="write uniform(low, high)"
        )
        return None
    first, last = low.static, high.static
    # A chain knows the values of parameters, and draws what the class of the transform draws all the same.
    fixed = not site.context.for_any_key or all(
        node.op != "name" for end in (low, high) for node in end.nodes
    )
    if fixed and isinstance(first, int) and isinstance(last, int):
        drawn = drawn_site(site, "randint", dims, dtype, first, last)
        return site.node(Type(dtype, dims, "batch"), (drawn,))
    # Ends that depend on parameters or data: a uniform draw, scaled and rounded down.
    drawn = drawn_site(site, "uniform", dims, "float64")
    return site.node(Type(dtype, dims, "batch"), (*_ready(site, dims, "int64"), drawn))


def _show_randint(node: Typed, printer: Printer) -> Printed:
    if len(node.args) == 1:
        return printer.show(node.args[0])
    low, high, drawn = (printer.aligned(arg, node.type.rank, node.type.col) for arg in node.args)
    width = _width(node, printer, low, high)
    whole = f"({width.at(MUL)} * {drawn.at(MUL + 1)}).to({printer.texts.dtype(node.type.dtype)})"
    return Printed(whole) if node.args[0].static == 0 else Printed(f"{low.at(ADD)} + {whole}", ADD)


def _width(node: Typed, printer: Printer, low: Printed, high: Printed) -> Printed:
    """`high - low`; of 1 to n + 1 it is n."""
    first, last = node.args[:2]
    if first.static == 0:
        return high
    if last.op == "+" and first.op == last.args[1].op == "literal" and first.static == last.args[1].static:
        return printer.aligned(last.args[0], node.type.rank, node.type.col)
    return Printed(f"{high.at(ADD)} - {low.at(ADD + 1)}", ADD)


def _randint_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    if len(args) == 1:
        return args[0]
    return Interval(args[0].low, args[1].high - 1)


def _infer_bernoulli(site: Site) -> Typed | None:
    (p,) = site.values
    dtype, dims = site.joined(site.values), drawn_dims(site, site.values)
    if dtype is None or dims is None:
        return None
    if p.interval.low > 1 or p.interval.high < 0:
        site.fail(rules.WRONG_ARGUMENTS, f"`{site.written(p)}` is no probability", at=p)
        return None
    drawn = drawn_site(site, "uniform", dims, dtype if is_float(dtype) else "float32")
    return site.node(Type("bool", dims, "batch"), (drawn, *_ready(site, dims, drawn.type.dtype)))


def _show_bernoulli(node: Typed, printer: Printer) -> Printed:
    drawn, p = (printer.aligned(arg, node.type.rank, node.type.col) for arg in node.args)
    return Printed(f"{drawn.at(COMPARE + 1)} < {p.at(COMPARE + 1)}", COMPARE)


SHAPE = Param("shape", "shape", None)
LIKE = Param("like", "like", None)
_DTYPE = Param("dtype", "dtype", None)


def _randint_reference(np: Any, *args: Any, **_: Any) -> Any:
    if len(args) == 1:
        return args[0]
    low, high, drawn = args
    return low + ((high - low) * drawn).astype(np.int64)


def _spread_reference(np: Any, low: Any, high: Any, drawn: Any, **_: Any) -> Any:
    # In the order of the printed text: the width is a number when both ends are.
    return low + (high - low) * drawn


def _as_drawn(args: tuple[Typed, ...]) -> tuple[Typed, ...]:
    """A draw is laid out as the numbers that it is made of."""
    return args


DRAWS: tuple[Builtin, ...] = (
    Builtin(
        name="uniform",
        form="uniform(low, high, shape=(), dtype=float32, like=None)",
        family="draw",
        doc="A number between `low` and `high`, every one as likely.",
        layout=_as_drawn,
        params=(Param("low"), Param("high"), SHAPE, _DTYPE, LIKE),
        infer=_infer_spread,
        interval=_spread_range,
        torch=_show_uniform,
        reference=_spread_reference,
        agreement="ulp",
    ),
    Builtin(
        name="normal",
        form="normal(mean, std, shape=(), dtype=float32, like=None)",
        family="draw",
        doc="A number of the normal distribution.",
        layout=_as_drawn,
        params=(Param("mean"), Param("std"), SHAPE, _DTYPE, LIKE),
        infer=_infer_spread,
        interval=lambda args, node: NUMBERS,
        torch=_show_normal,
        reference=lambda np, mean, std, drawn, **_: mean + std * drawn,
        agreement="ulp",
    ),
    Builtin(
        name="exponential",
        form="exponential(scale, shape=(), dtype=float32, like=None)",
        family="draw",
        doc="A waiting time whose mean is `scale`: 1 divided by the rate.",
        layout=_as_drawn,
        params=(Param("scale"), SHAPE, _DTYPE, LIKE),
        infer=_infer_spread,
        interval=_exponential_range,
        torch=_show_exponential,
        reference=lambda np, scale, drawn, **_: scale * -np.log1p(-drawn),
        agreement="ulp",
    ),
    Builtin(
        name="randint",
        form="randint(low, high, shape=(), dtype=int64, like=None)",
        family="draw",
        doc="An integer from `low` up to `high`, without `high`.",
        layout=_as_drawn,
        params=(Param("low"), Param("high"), SHAPE, _DTYPE, LIKE),
        infer=_infer_randint,
        interval=_randint_range,
        torch=_show_randint,
        reference=_randint_reference,
    ),
    Builtin(
        name="bernoulli",
        form="bernoulli(p, shape=(), like=None)",
        family="draw",
        doc="True with probability `p`.",
        layout=_as_drawn,
        params=(Param("p"), SHAPE, LIKE),
        infer=_infer_bernoulli,
        interval=lambda args, node: Interval(0, 1),
        torch=_show_bernoulli,
        reference=lambda np, drawn, p, **_: drawn < p,
    ),
)
