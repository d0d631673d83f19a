"""The logistic function and what is made of it: its logarithm, and the integral of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.record import Builtin, IntervalRule, Param
from specgen.expr.interval import Interval, loose
from specgen.expr.printer import Printed, Printer
from specgen.expr.types import Typed
from specgen.precedence import ADD, MUL


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))


def _sigmoid_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    (x,) = args
    # The smallest value that is computed, of float32 too: the true one may be less.
    return loose(Interval(_sigmoid(x.low), max(_sigmoid(x.high), 6.06e-39), x.nan), node.type.dtype, 0.0, 1.0)


def _show_sigmoid(node: Typed, printer: Printer) -> Printed:
    if not node.type.python:
        return pointwise.function("expit", "")(node, printer)
    # The same function, and it never overflows.
    half = printer.call("math.tanh", f"0.5 * {printer.text(node.args[0], MUL + 1)}")
    return Printed(f"0.5 + 0.5 * {half.text}", ADD)


def _log_sigmoid(value: float) -> float:
    return min(value, 0.0) - math.log1p(math.exp(-abs(value)))


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _smoothed(torch: str, bound: str, sign: str, *options: str) -> Callable[[Typed, Printer], Printed]:
    """Printing of `bound(x, 0)`, `min` or `max`, with a smooth corner: what is added, or taken off, is largest at 0."""

    def show(node: Typed, printer: Printer) -> Printed:
        if not node.type.python:
            return pointwise.function(torch, "", *options)(node, printer)
        x = printer.text(node.args[0])
        small = printer.call("math.exp", f"-abs({x})")
        return Printed(f"{bound}({x}, 0.0) {sign} {printer.call('math.log1p', small.text).text}", ADD)

    return show


def _floating(
    name: str,
    doc: str,
    interval: IntervalRule,
    torch: Callable[[Typed, Printer], Printed],
    reference: Callable[..., Any],
    python: Callable[[float], float],
) -> Builtin:
    return Builtin(
        name=name,
        family="elementwise",
        doc=doc,
        params=(Param("x"),),
        infer=pointwise.floating,
        interval=interval,
        torch=torch,
        reference=reference,
        python=python,
        agreement="ulp",
    )


LOGISTIC: tuple[Builtin, ...] = (
    _floating(
        "sigmoid",
        "`1 / (1 + exp(-x))`: a probability from a logit.",
        _sigmoid_range,
        _show_sigmoid,
        lambda np, x: 1 / (1 + np.exp(-x)),
        _sigmoid,
    ),
    _floating(
        "log_sigmoid",
        "The logarithm of `sigmoid(x)`, which does not overflow.",
        ranges.rising(_log_sigmoid, -math.inf, 0.0),
        _smoothed("torch.nn.functional.logsigmoid", "min", "-"),
        lambda np, x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
        _log_sigmoid,
    ),
    _floating(
        "softplus",
        "`log(1 + exp(x))`, which does not overflow: it makes any number a positive one.",
        ranges.rising(_softplus, 0.0, math.inf),
        # Beyond 40 it is the number itself in float64, too; torch's own limit of 20 is one for float32.
        _smoothed("torch.nn.functional.softplus", "max", "+", "threshold=40.0"),
        lambda np, x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        _softplus,
    ),
)
