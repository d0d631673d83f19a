"""A declared function as a program."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import CheckedFunction
from specgen.check.programs.body import Body
from specgen.program.program import Input, Output, Program
from specgen.program.stored import witnessed
from specgen.program.walk import store


def function_program(function: CheckedFunction, body: Body, further: Iterable[Input]) -> Program:
    """A declared function.

    Args:
        function: the function.
        body: takes its statements.
        further: what it is given besides its arguments: fields of records come first, numbers last.
    """
    further = tuple(further)
    for statement in function.let:
        body.assign(statement)
    typed = body.typed(function.returns)
    result = body.symbol("returns", function.function.result, typed.interval)
    body.add(result, store(typed, result.type), function.returns.path)
    inputs = (
        *(one for one in further if one.group),
        *(Input(symbol, "data") for symbol in function.symbols.values()),
        *(one for one in further if not one.group),
    )
    outputs = (Output("returns", result),)
    return witnessed(Program(function.function.text, inputs, tuple(body.statements), outputs))
