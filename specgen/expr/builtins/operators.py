"""The operators: arithmetic, comparison, logic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from specgen.expr import ranges
from specgen.expr.builtins import pointwise
from specgen.expr.builtins.record import Agreement, Builtin, IntervalRule, Param
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer
from specgen.expr.types import Static, Typed
from specgen.precedence import ADD, AND, ATOM, BIT_AND, BIT_OR, COMPARE, MUL, NOT, OR, POW, UNARY

_PAIR = (Param("a"), Param("b"))
_ONE = (Param("x"),)


def _of_two(
    sign: str,
    doc: str,
    infer: Callable[[Site], Typed | None],
    interval: IntervalRule,
    torch: Callable[[Typed, Printer], Printed],
    reference: Callable[..., Any],
    python: Callable[..., Static],
    agreement: Agreement = "bit",
) -> Builtin:
    """An operator that stands between two operands."""
    return Builtin(
        name=sign,
        form=f"a {sign} b",
        family="operator",
        doc=doc,
        params=_PAIR,
        infer=infer,
        interval=interval,
        torch=torch,
        reference=reference,
        python=python,
        agreement=agreement,
    )


def _arithmetic(
    sign: str,
    doc: str,
    interval: IntervalRule,
    python: Callable[..., Static],
    reference: Callable[..., Any],
    *,
    infer: Callable[[Site], Typed | None] = pointwise.numeric,
    torch: Callable[[Typed, Printer], Printed] | None = None,
    agreement: Agreement = "bit",
) -> Builtin:
    show = torch or pointwise.infix(sign, ADD if sign in "+-" else MUL)
    return _of_two(sign, doc, infer, interval, show, reference, python, agreement)


def _show_quotient(node: Typed, printer: Printer) -> Printed:
    left = node.args[0]
    if node.type.python or not left.type.python or left.static in (1, -1):
        return pointwise.infix("/", MUL)(node, printer)
    # Python's `3 / x` of a tensor is computed as 3 * (1 / x), which rounds twice.
    numerator, divisor = pointwise.operands(node, printer)
    return printer.call("torch.div", numerator.text, divisor.text)


def _show_power(node: Typed, printer: Printer) -> Printed:
    base, exponent = pointwise.operands(node, printer)
    return Printed(f"{base.at(POW + 1)} ** {exponent.at(UNARY)}", POW)


def _infer_power(site: Site) -> Typed | None:
    base, exponent = site.values
    whole = isinstance(exponent.static, int) and exponent.static >= 0
    if base.type.dtype.startswith(("int", "uint")) and exponent.type.dtype.startswith("int") and not whole:
        # A whole number to a negative power is none; torch raises, so the float is computed.
        return pointwise.floating(site)
    return pointwise.numeric(site)


def _power(base: Static, exponent: Static) -> Static:
    result: Static = operator.pow(base, exponent)
    return result


def _compare(sign: str, doc: str, python: Callable[..., bool]) -> Builtin:
    def reference(np: Any, a: Any, b: Any) -> Any:
        return python(a, b)

    show = pointwise.infix(sign, COMPARE, chained=False)
    return _of_two(sign, doc, pointwise.comparing, ranges.truth, show, reference, python)


def _show_either(node: Typed, printer: Printer) -> Printed:
    """`a or b` of Python; an `and` among them has parentheses, as linters want them."""
    floors = [OR if arg.op == "or" else NOT for arg in node.args]
    left, right = (
        one.at(floor) for one, floor in zip(pointwise.operands(node, printer), floors, strict=True)
    )
    return Printed(f"{left} or {right}", OR)


def _logic(word: str, sign: str, doc: str, python: Callable[..., bool], numpy: str) -> Builtin:
    bits = (BIT_OR, BIT_AND)[word == "and"]

    def show(node: Typed, printer: Printer) -> Printed:
        if node.type.python and word == "or":
            return _show_either(node, printer)
        if node.type.python:
            return pointwise.infix(word, AND)(node, printer)
        for own, other in (node.args, node.args[::-1]):
            if own.static is (word == "and") and other.type == node.type:
                return printer.show(other)  # `false or x` is x
        return pointwise.infix(sign, bits)(node, printer)

    def reference(np: Any, a: Any, b: Any) -> Any:
        return getattr(np, numpy)(a, b)

    return _of_two(word, doc, pointwise.logical, ranges.truth, show, reference, python)


_OPPOSITE: Final = {"==": "!=", "!=": "=="}
"""Not those of order: neither `x < y` nor `x >= y` holds of a number that is none."""


def _show_not(node: Typed, printer: Printer) -> Printed:
    (inner,) = node.args
    if inner.op == "given":
        return Printed(f"{printer.text(inner.args[0], ATOM)} is None", COMPARE)
    if inner.op in _OPPOSITE and node.type.python:
        return pointwise.infix(_OPPOSITE[inner.op], COMPARE, chained=False)(inner, printer)
    (operand,) = pointwise.operands(node, printer)
    if node.type.python:
        return Printed(f"not {operand.at(NOT)}", NOT)
    return Printed(f"~{operand.at(UNARY)}", UNARY)


def _show_negative(node: Typed, printer: Printer) -> Printed:
    (operand,) = pointwise.operands(node, printer)
    return Printed(f"-{operand.at(UNARY + 1)}", UNARY)


OPERATORS: tuple[Builtin, ...] = (
    _arithmetic("+", "Sum.", ranges.add, operator.add, lambda np, a, b: a + b),
    _arithmetic("-", "Difference.", ranges.subtract, operator.sub, lambda np, a, b: a - b),
    _arithmetic("*", "Product, element by element.", ranges.multiply, operator.mul, lambda np, a, b: a * b),
    _arithmetic(
        "/",
        "Quotient; of integers it is float32.",
        ranges.divide,
        operator.truediv,
        lambda np, a, b: a / b,
        infer=pointwise.floating,
        torch=_show_quotient,
    ),
    _arithmetic(
        "//",
        "Quotient rounded down.",
        ranges.floor_divide,
        operator.floordiv,
        lambda np, a, b: a // b,
    ),
    _arithmetic(
        "%",
        "Remainder, with the sign of the divisor, as in Python. For floats it can equal the divisor, by "
        "rounding: `-1.0e-9 % (2 * pi)` is `2 * pi`.",
        ranges.remainder,
        operator.mod,
        lambda np, a, b: a % b,
    ),
    _arithmetic(
        "**",
        "Power; of integers it is an integer when the exponent is a whole number known at build.",
        ranges.power,
        _power,
        lambda np, a, b: a**b,
        infer=_infer_power,
        torch=_show_power,
        agreement="ulp",
    ),
    Builtin(
        name="neg",
        form="-x",
        family="operator",
        doc="The number with its sign turned.",
        params=_ONE,
        infer=pointwise.numeric,
        interval=ranges.negate,
        torch=_show_negative,
        reference=lambda np, x: -x,
        python=operator.neg,
    ),
    _compare("<", "Less than.", operator.lt),
    _compare("<=", "At most.", operator.le),
    _compare(">", "Greater than.", operator.gt),
    _compare(">=", "At least.", operator.ge),
    _compare("==", "Equal; of numbers, truth values or members of an enum.", operator.eq),
    _compare("!=", "Not equal; of numbers, truth values or members of an enum.", operator.ne),
    _logic("and", "&", "Both, element by element.", lambda a, b: bool(a and b), "logical_and"),
    _logic("or", "|", "Either or both, element by element.", lambda a, b: bool(a or b), "logical_or"),
    Builtin(
        name="not",
        form="not x",
        family="operator",
        doc="The opposite, element by element.",
        params=_ONE,
        infer=pointwise.logical,
        interval=ranges.truth,
        torch=_show_not,
        reference=lambda np, x: np.logical_not(x),
        python=operator.not_,
    ),
)
