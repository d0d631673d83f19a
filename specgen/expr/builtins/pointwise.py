"""What all elementwise built-ins share: their typing rules and how their operands are printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.outcome import is_zero, report_nan, report_never
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import COMPUTE, INT_RANGES, is_int
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.types import Static, Type, Typed
from specgen.precedence import ATOM
from specgen.values import replace

_LARGEST_FOLDED_EXPONENT = 64


def numeric(site: Site) -> Typed | None:
    """Numbers in, their joined dtype out: `a + b`, `abs(a)`, `clip(x, low, high)`."""
    return _finish(site, site.joined(site.values), site.unified(site.values))


def floating(site: Site) -> Typed | None:
    """Numbers in, a float out: `a / b`, `sin(x)`."""
    dtype, shape = site.joined(site.values), site.unified(site.values)
    if dtype is not None and is_int(dtype):
        dtype = COMPUTE
    elif dtype == "number":
        dtype = "float"
    node = _finish(site, dtype, shape)
    if node is not None:
        report_nan(site)
    return node


def comparing(site: Site) -> Typed | None:
    """Two of a kind in, a truth value out."""
    equality = site.builtin.name in ("==", "!=")
    dtype, shape = site.joined(site.values, bools=equality), site.unified(site.values)
    node = _finish(site, dtype, shape, result="bool")
    if node is not None and dtype not in ("bool", "str", "any"):
        report_never(site)
    return node


def testing(site: Site) -> Typed | None:
    """A number in, a truth value out: `isnan(x)`."""
    return _finish(site, site.joined(site.values), site.unified(site.values), result="bool")


def logical(site: Site) -> Typed | None:
    """Truth values in, a truth value out."""
    sound = True
    for value in site.values:
        sound &= is_condition(site, value)
    shape = site.unified(site.values)
    return _finish(site, "bool" if sound else None, shape)


def is_condition(site: Site, value: Typed) -> bool:
    """Whether `value` is a truth value; reports when it is not."""
    if value.type.dtype == "bool":
        return True
    text = site.written(value)
    message = f"`{text}` is {value.type}, not a truth value"
    help = f"write {text} != 0" if value.type.dtype != "str" else None
    site.fail(rules.WRONG_DTYPE, message, at=value, help=help)
    return False


def _finish(site: Site, dtype: str | None, shape: Type | None, result: str | None = None) -> Typed | None:
    if dtype is None or shape is None:
        return None
    static, sound = _fold(site)
    if not sound:
        return None
    wanted = result or dtype
    kind = shape if shape.dtype == wanted else replace(shape, dtype=wanted)
    operands = site.spread(site.cast(site.values, dtype), shape)
    return site.node(kind, operands, static=static, operand_dtype=dtype)


def _fold(site: Site) -> tuple[Static | None, bool]:
    operands = [value.static for value in site.values]
    zero = site.builtin.name in ("/", "//", "%") and operands[-1] == 0
    if zero and not isinstance(operands[-1], str):
        divisor = site.values[-1]
        site.fail(rules.DIVISION_BY_ZERO, f"`{site.written(divisor)}` is zero", at=divisor)
        return None, False
    if site.builtin.name in ("/", "//", "%") and is_zero(site.values[-1]):
        divisor = site.values[-1]
        site.fail(rules.DIVISION_BY_ZERO, f"`{site.written(divisor)}` is always zero", at=divisor)
    if site.builtin.python is None or any(value is None for value in operands):
        return None, True
    if site.builtin.name == "**" and _is_huge(operands[0], operands[1]):
        site.fail(
            rules.LITERAL_RANGE, "the number is larger than int64 holds", help="write the base with a dot"
        )
        return None, False
    try:
        value = site.builtin.python(*operands)
    except (ArithmeticError, ValueError):
        site.fail(rules.WRONG_DTYPE, f"`{site.builtin.name}` has no value here")
        return None, False
    if isinstance(value, complex):
        site.fail(rules.WRONG_DTYPE, "the root of a negative number is not a real number")
        return None, False
    low, high = INT_RANGES["int64"]
    if isinstance(value, int) and not low <= value <= high:
        site.fail(rules.LITERAL_RANGE, "the number is larger than int64 holds")
        return None, False
    return value, True


def _is_huge(base: Static | None, exponent: Static | None) -> bool:
    # Never computed: the power of two integers has as many digits as it likes.
    whole = isinstance(base, int) and isinstance(exponent, int)
    return whole and abs(int(base or 0)) > 1 and int(exponent or 0) > _LARGEST_FOLDED_EXPONENT


def operand_dtype(node: Typed) -> str:
    """The dtype to which the operands of `node` were converted."""
    return str(node.options["operand_dtype"])


_IN_PLACE: Final = {"+": "add_", "-": "sub_", "*": "mul_", "/": "div_"}


def infix(sign: str, precedence: int, *, chained: bool = True) -> Callable[[Typed, Printer], Printed]:
    """Printing as `a sign b`; unless `chained`, an operand of the same precedence gets parentheses."""

    def show(node: Typed, printer: Printer) -> Printed:
        left, right = operands(node, printer)
        if sign in _IN_PLACE and printer.reuses(node.args[0], node):
            return method(left, _IN_PLACE[sign], right.text)
        floor = precedence if chained else precedence + 1
        return Printed(f"{left.at(floor)} {sign} {right.at(precedence + 1)}", precedence)

    return show


def operands(node: Typed, printer: Printer) -> list[Printed]:
    """The operands, ready to broadcast against each other."""
    rank = None if node.type.open else node.type.rank
    return [printer.aligned(arg, rank, node.type.col) for arg in node.args]


def function(torch: str, python: str, *options: str) -> Callable[[Typed, Printer], Printed]:
    """Printing as a call: `torch(…)` of tensors, with further `options` of one operand, `python(…)` of Python numbers."""

    def show(node: Typed, printer: Printer) -> Printed:
        if node.type.python:
            return printer.call(python, *(printer.text(arg) for arg in node.args))
        if len(node.args) == 1:
            return printer.call(torch, operands(node, printer)[0].text, *options)
        rank = None if node.type.open else node.type.rank
        dtype = operand_dtype(node)
        return printer.call(
            torch, *(printer.tensor(arg, dtype, rank, node.type.col).text for arg in node.args)
        )

    return show


def extreme(name: str) -> Callable[[Typed, Printer], Printed]:
    """Printing `min` or `max` of two or more: `torch.minimum` of tensors, `torch.clamp` with numbers."""

    def show(node: Typed, printer: Printer) -> Printed:
        if node.type.python:
            return printer.call(name, *(printer.text(arg) for arg in node.args))
        rank = None if node.type.open else node.type.rank
        tensors = [arg for arg in node.args if not arg.type.python]
        text = printer.aligned(tensors[0], rank, node.type.col).text
        for arg in tensors[1:]:
            other = printer.aligned(arg, rank, node.type.col).text
            text = printer.call(f"torch.{name}imum", text, other).text
        side = "max" if name == "min" else "min"
        numbers = [printer.number(arg, operand_dtype(node)).text for arg in node.args if arg.type.python]
        if numbers:
            bound = numbers[0] if len(numbers) == 1 else f"{name}({', '.join(numbers)})"
            text = printer.call("torch.clamp", text, f"{side}={bound}").text
        return Printed(text)

    return show


def clamped(node: Typed, printer: Printer) -> Printed:
    """Printing `clip(x, low, high)`."""
    x, low, high = node.args
    if node.type.python:
        return Printed(f"min(max({printer.text(x)}, {printer.text(low)}), {printer.text(high)})")
    rank = None if node.type.open else node.type.rank
    dtype, col = operand_dtype(node), node.type.col
    text = printer.tensor(x, dtype, rank, col).text if x.type.python else printer.aligned(x, rank, col).text
    if low.type.python and high.type.python:
        bounds = (printer.number(low, dtype).text, printer.number(high, dtype).text)
        return printer.call("torch.clamp", text, *bounds)
    if not (low.type.python or high.type.python):  # at its bounds it has the gradient of x, as with numbers
        tensors = (printer.aligned(bound, rank, col).text for bound in (low, high))
        return printer.call("torch.clamp", text, *tensors)
    for bound, side, name in ((low, "min", "maximum"), (high, "max", "minimum")):
        if bound.type.python:
            text = printer.call("torch.clamp", text, f"{side}={printer.number(bound, dtype).text}").text
        else:
            text = printer.call(f"torch.{name}", text, printer.aligned(bound, rank, col).text).text
    return Printed(text)


def atom(text: str) -> Printed:
    """Text that never needs parentheses."""
    return Printed(text, ATOM)


__all__ = [
    "atom",
    "clamped",
    "comparing",
    "extreme",
    "floating",
    "function",
    "infix",
    "is_condition",
    "logical",
    "numeric",
    "operand_dtype",
    "operands",
    "testing",
]
