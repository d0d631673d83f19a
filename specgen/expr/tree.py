"""The tree of an expression, as written: frozen nodes with the offsets of their text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from typing import Literal as Choice

from specgen.values import dataclass, replace

NO_ATTRIBUTES: Final = "values have no methods or attributes"
"""What is said of a dot behind a value."""

BinaryOp = Choice["+", "-", "*", "/", "//", "%", "**", "@"]
CompareOp = Choice["<", "<=", ">", ">=", "==", "!="]
LogicOp = Choice["and", "or", "not"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number or `True` / `False`."""

    value: bool | int | float
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A name, dotted or not: `th`, `next.thdot`, `agents.action`."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Keyword:
    """An argument by name: `axis=-1`."""

    name: str
    value: Expr
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function by its name."""

    function: Name
    args: tuple[Expr, ...]
    keywords: tuple[Keyword, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step` between square brackets."""

    lower: Expr | None
    upper: Expr | None
    step: Expr | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Axis:
    """`None` between square brackets: a new dimension."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rest:
    """`...` between square brackets: as many whole dimensions as are left."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Index:
    """`value[items]`."""

    value: Expr
    items: tuple[Expr | Slice | Axis | Rest, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `+x`."""

    op: Choice["-", "+"]
    operand: Expr
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Binary:
    """`a + b`; `op_start` is where the operator stands."""

    op: BinaryOp
    left: Expr
    right: Expr
    op_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Compare:
    """`a < b <= c`: one operator fewer than operands."""

    ops: tuple[CompareOp, ...]
    operands: tuple[Expr, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Logic:
    """`a and b`, `a or b`, `not a`."""

    op: LogicOp
    operands: tuple[Expr, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tuple:
    """`(a, b)`: shapes and axes only."""

    items: tuple[Expr, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spread:
    """`*xs`: several values as the arguments of a call."""

    value: Name
    start: int
    end: int


Expr = Literal | Name | Call | Index | Unary | Binary | Compare | Logic | Tuple | Spread


def output_of(value: Expr, name: str, start: int, end: int) -> Call:
    """One of the outputs that a call gives, `world(now).mean`: as a call of the function `.mean`, which nobody can declare."""
    return Call(Name(f".{name}", start, end), (value,), (), value.start, end)


def is_output(expr: Expr) -> bool:
    """Whether an expression is an output of a call."""
    return isinstance(expr, Call) and expr.function.path.startswith(".")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below `expr`, in the order of the text."""
    match expr:
        case Literal() | Name():
            return ()
        case Call():
            return expr.args + tuple(keyword.value for keyword in expr.keywords)
        case Index():
            found: list[Expr] = [expr.value]
            for item in expr.items:
                if isinstance(item, Slice):
                    found += [end for end in (item.lower, item.upper, item.step) if end is not None]
                elif not isinstance(item, Axis | Rest):
                    found.append(item)
            return tuple(found)
        case Unary():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Compare() | Logic():
            return expr.operands
        case Tuple():
            return expr.items
        case Spread():
            return (expr.value,)


def changed(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to it and to every expression below it, to those below first."""
    return change(with_parts(expr, lambda part: changed(part, change)))


def with_parts(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`expr` with `change` applied to the expressions directly below it, but to the ends of slices, which are constants."""
    match expr:
        case Call():
            keywords = tuple(replace(keyword, value=change(keyword.value)) for keyword in expr.keywords)
            return replace(expr, args=tuple(map(change, expr.args)), keywords=keywords)
        case Index():
            items = tuple(
                item if isinstance(item, Slice | Axis | Rest) else change(item) for item in expr.items
            )
            return replace(expr, value=change(expr.value), items=items)
        case Unary():
            return replace(expr, operand=change(expr.operand))
        case Binary():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case Compare() | Logic():
            return replace(expr, operands=tuple(map(change, expr.operands)))
        case Tuple():
            return replace(expr, items=tuple(map(change, expr.items)))
        case Name() | Literal() | Spread():
            return expr


def free_names(expr: Expr) -> frozenset[str]:
    """The dotted names that `expr` reads; names of functions that it calls are not among them."""
    return frozenset(name.path for name in names_read(expr))


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """`expr` and every expression below it, each before those below it."""
    left = [expr]
    while left:
        part = left.pop()
        yield part
        left += children(part)[::-1]


def names_read(expr: Expr) -> Iterator[Name]:
    """Every name that is read, in the order of the text; names of functions are not among them."""
    return (part for part in subexpressions(expr) if isinstance(part, Name))


def calls_in(expr: Expr) -> Iterator[Call]:
    """Every call of a function."""
    return (part for part in subexpressions(expr) if isinstance(part, Call))


def names_read_or_called(expr: Expr) -> Iterator[Name]:
    """Every name that is read, and every function that is called, in the order of the text."""
    for part in subexpressions(expr):
        if isinstance(part, Name):
            yield part
        elif isinstance(part, Call):
            yield part.function
