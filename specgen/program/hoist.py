"""What parameters and constants alone decide is computed once, not at each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.program.program import Assign, Input, Output, Program, Statement
from specgen.program.verify import verified
from specgen.program.walk import reads, symbols_read, with_body

GROUP: Final = "constants"
"""The record in which the steps are given what was computed once."""


@verified("any")
def hoist(program: Program) -> tuple[Program, Program]:
    """Two programs: what is computed once, and the rest, which is given that.

    Calls stay where they are, and so does what is stored for each row. A tensor that reads no tensor stays, too:
    before the steps nothing tells on which device it belongs.
    """
    fixed = {one.symbol for one in program.inputs if one.kind in ("param", "const")}
    once: list[Statement] = []
    each: list[Statement] = []
    for statement in program.body:
        if isinstance(statement, Assign) and _is_fixed(statement.value, fixed):
            fixed.add(statement.target)
            once.append(statement)
        else:
            each.append(statement)
    needed: set[Symbol] = {symbol for statement in each for symbol in reads(statement)}
    needed |= {output.symbol for output in program.outputs}
    made = [one.target for one in once if isinstance(one, Assign) and one.target in needed]
    names = _names(made)
    outputs = tuple(Output(name, symbol) for name, symbol in zip(names, made, strict=True))
    first = with_body(replace(program, name=f"{program.name}_constants", outputs=outputs, record=None), once)
    given = tuple(
        Input(replace(symbol, name=name), "const", GROUP) for name, symbol in zip(names, made, strict=True)
    )
    records = sum(bool(one.group) for one in program.inputs)
    inputs = (*program.inputs[:records], *given, *program.inputs[records:])
    return first, with_body(replace(program, inputs=inputs), each)


def _is_fixed(value: Typed, fixed: set[Symbol]) -> bool:
    found = list(symbols_read(value))
    if value.op == "store" or not found or not fixed.issuperset(found):
        return False
    return value.type.python or any(not symbol.type.python for symbol in found)


def _names(symbols: list[Symbol]) -> list[str]:
    """A name of its own for each symbol, in their order."""
    names: dict[str, None] = {}
    for symbol in symbols:
        name, count = symbol.name, 2
        while name in names:
            name, count = f"{symbol.name}_{count}", count + 1
        names[name] = None
    return list(names)
