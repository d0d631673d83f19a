"""Random draws: numbered sites, arguments of the pure function that the adapter around it draws."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import FLOAT_RANGES, is_float, is_int
from specgen.expr.interval import NUMBERS, Interval
from specgen.expr.printer import ADD, COMPARE, MUL, Printed, Printer, number_text
from specgen.expr.types import Dims, DrawKind, Type, Typed


def _site_node(
    site: Site, kind: DrawKind, dims: Dims, dtype: str, low: int | None = None, high: int | None = None
) -> Typed:
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
        Type(dtype, dims, "batch"),
        values,
        start=site.start,
        end=site.end,
        text=drawn.name,
        site=drawn,
    )


def _dims(site: Site, values: Sequence[Typed]) -> Dims | None:
    """The shape of the draw: what `shape=` says, else the shape of the parameters."""
    given = site.options["shape"]
    shape = site.unified(values) if values else Type("bool", (), "lit")
    if shape is None:
        return None
    if shape.dims is None:
        site.fail(rules.SHAPE_MISMATCH, "a draw needs a known shape", help="say shape=")
        return None
    if given is None:
        return shape.dims
    assert isinstance(given, tuple)
    if shape.dims not in ((), given):
        message = f"shape={list(given)} does not fit parameters of shape {list(shape.dims)}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    return given


def _infer_spread(site: Site) -> Typed | None:
    """`uniform(low, high)` and `normal(mean, std)`: a standard draw, moved and scaled."""
    dtype, dims = site.joined(site.values), _dims(site, site.values)
    if dtype is None or dims is None:
        return None
    wanted = site.options["dtype"]
    if wanted is None:
        tensors = any(not value.type.python for value in site.values)
        wanted = dtype if tensors and is_float(dtype) else site.context.float_dtype
    if not is_float(str(wanted)):
        site.fail(
            rules.WRONG_ARGUMENTS,
            f"`{site.builtin.name}` draws floats, not {wanted}",
            help="write randint(low, high)",
        )
        return None
    kind: DrawKind = "uniform" if site.builtin.name == "uniform" else "normal"
    _spread_makes_sense(site, kind)
    args = (*site.cast(site.values, str(wanted)), _site_node(site, kind, dims, str(wanted)))
    return site.node(Type(str(wanted), dims, "batch"), args, operand_dtype=str(wanted))


def _spread_makes_sense(site: Site, kind: DrawKind) -> None:
    """Report ends in the wrong order, and a deviation below zero."""
    first, second = site.values
    if kind == "uniform" and first.interval.low > second.interval.high:
        low, high = site.written(first), site.written(second)
        message = f"the draw is from `low` up to `high`, and `{low}` is greater than `{high}`"
        site.fail(rules.WRONG_ARGUMENTS, message, at=second, help=f"write uniform({high}, {low})")
    if kind == "normal" and second.interval.high < 0:
        message = f"a standard deviation is not negative, and `{site.written(second)}` is"
        site.fail(rules.WRONG_ARGUMENTS, message, at=second)


def _show_uniform(node: Typed, printer: Printer) -> Printed:
    low, high, drawn = (printer.aligned(arg, node.type.rank) for arg in node.args)
    span = _span(node, low, high)
    scaled = drawn if span is None else Printed(f"{span.at(MUL)} * {drawn.at(MUL + 1)}", MUL)
    if node.args[0].static == 0:
        return scaled
    return Printed(f"{low.at(ADD)} + {scaled.at(ADD + 1)}", ADD)


def _span(node: Typed, low: Printed, high: Printed) -> Printed | None:
    """`high - low`, or None when it is 1."""
    first, last = node.args[0].static, node.args[1].static
    if first == 0:
        return None if last == 1 else high
    if low.text in (f"-{high.text}", f"-({high.text})"):
        # -pi to pi: the width reads better as 2 * pi.
        return (
            Printed(f"2 * {high.at(MUL)}", MUL)
            if "math" in high.text or last is None
            else number_text(2 * last)
        )
    if node.args[0].op == node.args[1].op == "literal" and first is not None and last is not None:
        assert not isinstance(first, str)
        assert not isinstance(last, str)
        return number_text(_difference(last, first, node.type.dtype))
    return Printed(f"{high.at(ADD)} - {low.at(ADD + 1)}", ADD)


def _difference(last: float, first: float, dtype: str) -> float:
    """`last - first`; as it is written on paper (0.2, not 0.19999999999999996) where `dtype` can't tell the two."""
    exact = last - first
    neat = type(exact)(Decimal(str(last)) - Decimal(str(first)))
    if dtype != "float32" or abs(exact) > FLOAT_RANGES[dtype]:
        return exact
    return neat if struct.pack("f", neat) == struct.pack("f", exact) else exact


def _show_normal(node: Typed, printer: Printer) -> Printed:
    mean, std, drawn = (printer.aligned(arg, node.type.rank) for arg in node.args)
    scaled = drawn if node.args[1].static == 1 else Printed(f"{std.at(MUL)} * {drawn.at(MUL + 1)}", MUL)
    return scaled if node.args[0].static == 0 else Printed(f"{mean.at(ADD)} + {scaled.at(ADD + 1)}", ADD)


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
    dims = _dims(site, site.values)
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
    if isinstance(first, int) and isinstance(last, int):
        drawn = _site_node(site, "randint", dims, dtype, first, last)
        return site.node(Type(dtype, dims, "batch"), (drawn,))
    # Ends that depend on parameters or data: a uniform draw, scaled and rounded down.
    drawn = _site_node(site, "uniform", dims, "float64")
    return site.node(Type(dtype, dims, "batch"), (*site.cast(site.values, "int64"), drawn))


def _show_randint(node: Typed, printer: Printer) -> Printed:
    if len(node.args) == 1:
        return printer.show(node.args[0])
    low, high, drawn = (printer.aligned(arg, node.type.rank) for arg in node.args)
    width = high if node.args[0].static == 0 else Printed(f"{high.at(ADD)} - {low.at(ADD + 1)}", ADD)
    whole = f"({width.at(MUL)} * {drawn.at(MUL + 1)}).to(torch.{node.type.dtype})"
    return Printed(whole) if node.args[0].static == 0 else Printed(f"{low.at(ADD)} + {whole}", ADD)


def _randint_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    if len(args) == 1:
        return args[0]
    return Interval(args[0].low, args[1].high - 1)


def _infer_bernoulli(site: Site) -> Typed | None:
    (p,) = site.values
    dtype, dims = site.joined(site.values), _dims(site, site.values)
    if dtype is None or dims is None:
        return None
    if p.interval.low > 1 or p.interval.high < 0:
        site.fail(rules.WRONG_ARGUMENTS, f"`{site.written(p)}` is no probability", at=p)
        return None
    drawn = _site_node(site, "uniform", dims, dtype if is_float(dtype) else "float32")
    return site.node(Type("bool", dims, "batch"), (drawn, *site.cast(site.values, drawn.type.dtype)))


def _show_bernoulli(node: Typed, printer: Printer) -> Printed:
    drawn, p = (printer.aligned(arg, node.type.rank) for arg in node.args)
    return Printed(f"{drawn.at(COMPARE + 1)} < {p.at(COMPARE + 1)}", COMPARE)


_SHAPE = Param("shape", "shape", None)
_DTYPE = Param("dtype", "dtype", None)


def _randint_reference(np: Any, *args: Any, **_: Any) -> Any:
    if len(args) == 1:
        return args[0]
    low, high, drawn = args
    return low + ((high - low) * drawn).astype(np.int64)


def _spread_reference(np: Any, low: Any, high: Any, drawn: Any, **_: Any) -> Any:
    # In the order of the printed text: the width is a number when both ends are.
    return low + (high - low) * drawn


DRAWS: tuple[Builtin, ...] = (
    Builtin(
        name="uniform",
        signature="uniform(low, high, shape=(), dtype=float32)",
        family="draw",
        doc="A number between `low` and `high`, every one as likely.",
        params=(Param("low"), Param("high"), _SHAPE, _DTYPE),
        infer=_infer_spread,
        interval=_spread_range,
        torch=_show_uniform,
        reference=_spread_reference,
        agreement="ulp",
    ),
    Builtin(
        name="normal",
        signature="normal(mean, std, shape=(), dtype=float32)",
        family="draw",
        doc="A number of the normal distribution.",
        params=(Param("mean"), Param("std"), _SHAPE, _DTYPE),
        infer=_infer_spread,
        interval=lambda args, node: NUMBERS,
        torch=_show_normal,
        reference=lambda np, mean, std, drawn, **_: mean + std * drawn,
        agreement="ulp",
    ),
    Builtin(
        name="randint",
        signature="randint(low, high, shape=(), dtype=int64)",
        family="draw",
        doc="An integer from `low` up to `high`, without `high`.",
        params=(Param("low"), Param("high"), _SHAPE, _DTYPE),
        infer=_infer_randint,
        interval=_randint_range,
        torch=_show_randint,
        reference=_randint_reference,
    ),
    Builtin(
        name="bernoulli",
        signature="bernoulli(p, shape=())",
        family="draw",
        doc="True with probability `p`.",
        params=(Param("p"), _SHAPE),
        infer=_infer_bernoulli,
        interval=lambda args, node: Interval(0, 1),
        torch=_show_bernoulli,
        reference=lambda np, drawn, p, **_: drawn < p,
    ),
)
