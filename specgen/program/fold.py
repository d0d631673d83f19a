"""Truth values and numbers that are known at build: what they decide is decided, what they compute is computed."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.expr import Symbol, Typed, point
from specgen.expr.types import LEVELS
from specgen.program.program import Assign, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import with_parts
from specgen.values import replace


@verified()
def fold(program: Program) -> Program:
    """The program with what is known at build in place of what computes it; what nothing reads then stays (`live`).

    Numbers of Python are computed as Python does. `x or False` is `x`, `x or True` is known, and so is a flag that
    is stored of a known value. A choice by a known truth value is its branch; `x * 1`, `x / 1` and `x - 0` are `x`.
    """
    return replace(program, body=_Folding().body(program.body))


class _Folding:
    def __init__(self) -> None:
        self.numbers: dict[Symbol, Typed] = {}
        self.flags: dict[Symbol, bool] = {}

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """The statements of a program or a region, folded."""
        made: list[Statement] = []
        for statement in body:
            if isinstance(statement, Region):
                inner = self.body(statement.body)
                statement = replace(
                    statement,
                    body=inner,
                    carried=tuple(replace(one, init=self.expr(one.init)) for one in statement.carried),
                    condition=statement.condition and self.expr(statement.condition),
                )
            elif isinstance(statement, Assign):
                if (value := self.expr(statement.value)) is not statement.value:
                    statement = replace(statement, value=value)
                self.note(statement)
            else:
                statement = replace(
                    statement,
                    args=tuple(map(self.expr, statement.args)),
                    named=tuple((name, self.expr(value)) for name, value in statement.named),
                )
            made.append(statement)
        return tuple(made)

    def note(self, statement: Assign) -> None:
        """Remember what a statement says is known."""
        value, target = statement.value, statement.target
        if value.static is not None and target.type.python:
            self.numbers[target] = value
        flag = self.truth(value)
        if flag is not None:
            self.flags[target] = flag

    def truth(self, expr: Typed) -> bool | None:
        """The truth value that a flag has in all rows, if it is known."""
        if expr.type.dtype != "bool":
            return None
        if isinstance(expr.static, bool):
            return expr.static
        match expr.op:
            case "name":
                return None if expr.symbol is None else self.flags.get(expr.symbol)
            case "store":
                return self.truth(expr.args[0])
            case "zeros_like" | "ones_like":
                return expr.op == "ones_like"
            case "not":
                inner = self.truth(expr.args[0])
                return None if inner is None else not inner
            case "or" | "and":
                wins = expr.op == "or"
                values = [self.truth(arg) for arg in expr.args]
                return wins if wins in values else None if None in values else not wins
            case _:
                return None

    def expr(self, expr: Typed, whole: bool = True) -> Typed:
        """An expression, folded; `whole`: it is all of what is assigned, and stays a tensor of its own."""
        if expr.op == "name":
            return self.numbers.get(expr.symbol, expr) if expr.symbol is not None else expr
        expr = with_parts(expr, lambda part: self.expr(part, False))
        if expr.type.python:
            return _number(expr)
        if expr.op in ("or", "and") and self.truth(expr) is None:
            open = [arg for arg in expr.args if self.truth(arg) is None]
            return open[0] if len(open) == 1 and open[0].type == expr.type else expr
        if expr.op == "where" and isinstance(expr.args[0].static, bool):
            chosen = expr.args[1] if expr.args[0].static else expr.args[2]
            return chosen if chosen.type == expr.type and not whole else expr
        return expr.args[0] if not whole and _changes_nothing(expr) else expr


def _number(expr: Typed) -> Typed:
    """A number of Python, computed where its operands are known."""
    values = [arg.static for arg in expr.args]
    python = None if expr.builtin is None else expr.builtin.python
    if not expr.args or expr.static is not None or expr.op == "cast" or any(one is None for one in values):
        return expr
    if python is None:
        return expr
    try:
        value = python(*values)
    except (ArithmeticError, ValueError):
        return expr  # it raises when the code runs, if it runs
    kind = replace(expr.type, level=LEVELS[0])
    interval = expr.interval if isinstance(value, str) else point(value)
    return Typed("literal", kind, interval, start=expr.start, end=expr.end, static=value)


_NEUTRAL = {"*": 1, "/": 1, "-": 0}


def _changes_nothing(expr: Typed) -> bool:
    if expr.op not in _NEUTRAL or len(expr.args) != 2 or expr.args[0].type != expr.type:
        return False
    second = expr.args[1]
    return second.type.python and not isinstance(second.static, bool) and second.static == _NEUTRAL[expr.op]
