"""Elementwise functions, and `where`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.logistic import LOGISTIC
from specgen.expr.builtins.record import Agreement, Builtin, IntervalRule, Param
from specgen.expr.builtins.site import Site
from specgen.expr.conversions import convert
from specgen.expr.dtypes import CONCRETE, is_float
from specgen.expr.interval import Interval
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Sym, limits
from specgen.expr.types import Static, Type, Typed
from specgen.precedence import ATOM, POW, TERNARY, UNARY
from specgen.values import replace

_ONE = (Param("x"),)


def _math(
    name: str,
    doc: str,
    interval: IntervalRule,
    *,
    python: str | None = None,
    numpy: str | None = None,
) -> Builtin:
    """A function of one float, in `math`, torch and NumPy."""
    fold: Callable[..., Static] = getattr(math, python or name)

    def reference(np: Any, x: Any) -> Any:
        return getattr(np, numpy or name)(x)

    return Builtin(
        name=name,
        family="elementwise",
        doc=doc,
        params=_ONE,
        infer=pointwise.floating,
        interval=interval,
        torch=pointwise.function(f"torch.{name}", f"math.{python or name}"),
        reference=reference,
        python=fold,
        agreement="ulp",
    )


def _rounding(name: str, doc: str, python: Callable[[float], float], numpy: str, text: str) -> Builtin:
    def rule(site: Site) -> Typed | None:
        node = pointwise.numeric(site)
        if node is None or not node.type.python:
            return node
        return replace(node, type=replace(node.type, dtype="int64"))

    def reference(np: Any, x: Any) -> Any:
        return getattr(np, numpy)(x).astype(x.dtype)

    return Builtin(
        name=name,
        family="elementwise",
        doc=f"{doc} The dtype stays.",
        params=_ONE,
        infer=rule,
        interval=ranges.rising(python, exact=True),
        torch=pointwise.function(f"torch.{name}", text),
        reference=reference,
        python=python,
    )


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def rounded(value: float) -> float:
        return value if math.isinf(value) else function(value)

    return rounded


def _plain(
    name: str,
    doc: str,
    interval: IntervalRule,
    torch: Callable[[Typed, Printer], Printed],
    reference: Callable[..., Any],
    *,
    params: tuple[Param, ...] = _ONE,
    infer: Callable[[Site], Typed | None] = pointwise.numeric,
    python: Callable[..., Static] | None = None,
    agreement: Agreement = "bit",
) -> Builtin:
    return Builtin(
        name=name,
        family="elementwise",
        doc=doc,
        params=params,
        infer=infer,
        interval=interval,
        torch=torch,
        reference=reference,
        python=python,
        agreement=agreement,
    )


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _show_sign(node: Typed, printer: Printer) -> Printed:
    if not node.type.python:
        return pointwise.function("torch.sign", "")(node, printer)
    text = printer.text(node.args[0])
    return Printed(f"(({text}) > 0) - (({text}) < 0)", 10)


def _show_square(node: Typed, printer: Printer) -> Printed:
    if not node.type.python:
        return pointwise.function("torch.square", "")(node, printer)
    return Printed(f"{printer.text(node.args[0], ATOM)} ** 2", POW)


def infer_where(site: Site) -> Typed | None:
    """`where(condition, then, otherwise)`: a condition known at build leaves only one branch."""
    condition, then, otherwise = site.values
    if not pointwise.is_condition(site, condition):
        return None
    branches = (then, otherwise)
    if (sizes := _list_of_either(site)) is not None:
        return sizes
    dtype = site.joined(branches, bools=True)
    if dtype is None:
        return None
    if is_float(dtype) and all(branch.type.python for branch in branches):
        # Of two numbers the target decides: as float64 they keep all their digits.
        dtype = "float64" if site.context.float_dtype == "float64" else dtype
    shape = site.unified(site.values)
    if shape is None:
        return None
    if isinstance(condition.static, bool):
        chosen = then if condition.static else otherwise
        if chosen.type.dims == shape.dims:
            return chosen if chosen.type.python else convert(chosen, dtype)
        shape = replace(shape, level=chosen.type.level if not chosen.type.python else "const")
    if dtype == "str":
        site.fail(rules.WRONG_DTYPE, "`where` does not choose between words")
        return None
    kind = replace(shape, dtype=dtype)
    operands = site.spread((condition, *site.cast(branches, dtype)), shape)
    node = site.node(kind, operands, operand_dtype=dtype)
    size = _size_of_either(site) if kind.python and dtype == "int64" else None
    return node if size is None else replace(node, interval=Interval.of_size(size))


def _list_of_either(site: Site) -> Typed | None:
    """The sizes that a choice of the constructor is, if it is one of lists; their number where both have as many."""
    condition, then, otherwise = site.values
    if isinstance(condition.static, bool):
        chosen = then if condition.static else otherwise
        return chosen if chosen.type.dtype == "list" else None
    if not condition.type.python or any(one.type.dtype != "list" for one in (then, otherwise)):
        return None
    alike = then.type.dims == otherwise.type.dims
    return site.node(then.type if alike else Type("list", (Sym.named("dims"),), "ctor"))


def _size_of_either(site: Site) -> Sym | None:
    """The size that a choice of the constructor is, where both of its branches are sizes."""
    condition, then, otherwise = site.values
    one, other = then.interval.known_size, otherwise.interval.known_size
    if one is None or other is None or one == other:
        return None
    lows, highs = zip(limits(one), limits(other), strict=True)
    return Sym.named(f"where({site.written(condition)}, {one}, {other})", min(lows), max(highs))


def _show_where(node: Typed, printer: Printer) -> Printed:
    condition, then, otherwise = node.args
    dtype, kind = node.type.dtype, node.type
    if isinstance(condition.static, bool):
        return _branch(then if condition.static else otherwise, node, printer)
    if condition.type.python:
        texts = [_branch(branch, node, printer).at(TERNARY + 1) for branch in (then, otherwise)]
        return Printed(f"{texts[0]} if {printer.text(condition, TERNARY + 1)} else {texts[1]}", TERNARY)
    rank = None if kind.open else kind.rank
    where = printer.aligned(condition, rank, kind.col)
    if then.type.python and otherwise.type.python and dtype in CONCRETE and dtype != "bool":
        return _choice_of_numbers(node, where, printer)
    texts = [
        printer.number(branch, dtype).text
        if branch.type.python
        else printer.aligned(branch, rank, kind.col).text
        for branch in (then, otherwise)
    ]
    return printer.call("torch.where", where.text, *texts)


def _choice_of_numbers(node: Typed, where: Printed, printer: Printer) -> Printed:
    """`where` of two numbers; left to itself torch makes floats of its default dtype, whatever that is."""
    _, then, otherwise = node.args
    dtype, kind = node.type.dtype, node.type
    if then.static in (0, 1) and otherwise.static == 1 - then.static:
        truth = where if then.static else Printed(f"~{where.at(UNARY)}", UNARY)
        return method(truth, "to", printer.texts.dtype(dtype))
    chosen, other = printer.number(then, dtype).text, printer.number(otherwise, dtype).text
    if kind.open:
        base = printer.texts.full_like(where.text, other, dtype)
        return method(base, "masked_fill", where.text, chosen)
    if dtype != "int64":
        other = printer.filled(otherwise, dtype, kind.dims, kind.col, batch=kind.level == "batch").text
    return printer.call("torch.where", where.text, chosen, other)


def _branch(branch: Typed, node: Typed, printer: Printer) -> Printed:
    # Python chooses one branch as it is, so each must already be what the type says.
    if node.type.python or node.type.open:
        return printer.show(branch)
    batch = node.type.level == "batch"
    return printer.filled(branch, node.type.dtype, node.type.dims, node.type.col, batch=batch)


FUNCTIONS: tuple[Builtin, ...] = (
    _plain(
        "abs",
        "The number without its sign.",
        ranges.absolute,
        pointwise.function("torch.abs", "abs"),
        lambda np, x: np.abs(x),
        python=abs,
    ),
    _plain("sign", "-1, 0 or 1.", ranges.sign, _show_sign, lambda np, x: np.sign(x), python=_sign),
    _plain(
        "square",
        "`x ** 2`.",
        lambda args, node: ranges.multiply((ranges.absolute(args, node),) * 2, node),
        _show_square,
        lambda np, x: x * x,
        python=lambda x: x * x,
    ),
    _math("sqrt", "Square root; NaN below 0.", ranges.rising(math.sqrt, 0.0, domain=(0, math.inf))),
    _math("exp", "The exponential.", ranges.rising(math.exp, 0.0)),
    _math("expm1", "`exp(x) - 1`, which keeps small `x`.", ranges.rising(math.expm1, -1.0)),
    _math(
        "log",
        "The natural logarithm; NaN below 0.",
        ranges.rising(lambda x: math.log(x) if x else -math.inf, domain=(0, math.inf)),
    ),
    _math(
        "log1p",
        "The natural logarithm of `1 + x`, which keeps small `x`; NaN below -1.",
        ranges.rising(lambda x: math.log1p(x) if x > -1 else -math.inf, domain=(-1, math.inf)),
    ),
    _math("sin", "Sine.", ranges.between(-1, 1)),
    _math("cos", "Cosine.", ranges.between(-1, 1)),
    _math("tan", "Tangent.", ranges.between(-math.inf, math.inf)),
    _math("tanh", "Hyperbolic tangent.", ranges.rising(math.tanh, -1.0, 1.0)),
    *LOGISTIC,
    _math(
        "asin",
        "Inverse sine; NaN outside [-1, 1].",
        ranges.rising(math.asin, -1.5707964, 1.5707964, (-1, 1)),
        numpy="arcsin",
    ),
    _math(
        "acos",
        "Inverse cosine; NaN outside [-1, 1].",
        lambda args, node: ranges.between(0.0, 3.1415928)(args, node).with_nan(
            args[0].nan or args[0].low < -1 or args[0].high > 1
        ),
        numpy="arccos",
    ),
    _math("atan", "Inverse tangent.", ranges.rising(math.atan, -1.5707964, 1.5707964), numpy="arctan"),
    _plain(
        "atan2",
        "The angle of the point (x, y), from -pi to pi.",
        lambda args, node: ranges.between(-3.1415928, 3.1415928)(args, node).with_nan(
            any(a.nan for a in args)
        ),
        pointwise.function("torch.atan2", "math.atan2"),
        lambda np, y, x: np.arctan2(y, x),
        params=(Param("y"), Param("x")),
        infer=pointwise.floating,
        python=math.atan2,
        agreement="ulp",
    ),
    _rounding("floor", "Rounded down.", _whole(math.floor), "floor", "math.floor"),
    _rounding("ceil", "Rounded up.", _whole(math.ceil), "ceil", "math.ceil"),
    _rounding(
        "round",
        "Rounded to the nearest whole number, halves to the even one.",
        _whole(round),
        "round",
        "round",
    ),
    _plain(
        "clip",
        "`x`, but at least `low` and at most `high`; NaN stays NaN.",
        ranges.clamp,
        pointwise.clamped,
        lambda np, x, low, high: np.minimum(np.maximum(x, low), high),
        params=(Param("x"), Param("low"), Param("high")),
        python=lambda x, low, high: min(max(x, low), high),
    ),
    _plain(
        "isnan",
        "Whether the number is NaN.",
        ranges.truth,
        pointwise.function("torch.isnan", "math.isnan"),
        lambda np, x: np.isnan(x),
        infer=pointwise.testing,
        python=math.isnan,
    ),
    _plain(
        "isfinite",
        "Whether the number is neither infinite nor NaN.",
        ranges.truth,
        pointwise.function("torch.isfinite", "math.isfinite"),
        lambda np, x: np.isfinite(x),
        infer=pointwise.testing,
        python=math.isfinite,
    ),
    Builtin(
        name="where",
        family="condition",
        doc="`then` where the condition holds, `otherwise` elsewhere. Both are computed, unless the condition is "
        "a parameter: then Python chooses one.",
        params=(Param("condition"), Param("then"), Param("otherwise")),
        infer=infer_where,
        interval=ranges.choose,
        torch=_show_where,
        reference=lambda np, condition, then, otherwise: np.where(condition, then, otherwise),
        # Known at build, it leaves a number or a smaller value, which is spread.
        layout=lambda args: () if isinstance(args[0].static, bool) else args,
    ),
)
