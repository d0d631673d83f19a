"""What parameters and constants alone decide is computed once, not at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.program.program import Assign, Input, Output, Program, Statement
from specgen.program.verify import verified
from specgen.program.walk import read, reads, reads_symbol, symbols_read, with_body, with_parts

GROUP: Final = "constants"
"""The record in which the steps are given what was computed once."""


_VIEWS: Final = ("reshape", "transpose", "narrow", "stop_grad", "[]")
"""Operations that only look at a tensor."""


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


@verified("any")
def hoist_tables(
    name: str, record: str, programs: Sequence[Program]
) -> tuple[Program | None, tuple[Program, ...]]:
    """What is computed of constant tables alone, also within an expression, as one program for several others.

    Args:
        name: what the program is called.
        record: the record that it returns.
        programs: those that are given it.

    Returns:
        The program that computes it, None where there is nothing; and the others, given what they need of it.
    """
    found: dict[Symbol, Assign] = {}
    rest = [replace(program, body=_without_tables(program, found)) for program in programs]
    if not found:
        return None, tuple(rest)
    names = dict(zip(found, _names(list(found)), strict=True))
    tables = {one.symbol: one for program in programs for one in program.inputs if one.kind == "const"}
    outputs = tuple(Output(names[symbol], symbol) for symbol in found)
    once = Program(name, tuple(tables.values()), tuple(found.values()), outputs, record)
    given = [Input(replace(symbol, name=names[symbol]), "const", GROUP) for symbol in found]
    return with_body(once, once.body), tuple(
        with_body(replace(program, inputs=(*_records(program), *given, *_others(program))), program.body)
        for program in rest
    )


def _without_tables(program: Program, found: dict[Symbol, Assign]) -> tuple[Statement, ...]:
    """The statements of a program that are no tables; those that are, and parts of others, go into `found`."""
    fixed = {one.symbol for one in program.inputs if one.kind == "const"} | found.keys()
    body: list[Statement] = []
    for statement in program.body:
        if not isinstance(statement, Assign) or statement.value.op == "place":
            body.append(statement)
        elif statement.value.op != "store" and _is_table(statement.value, fixed):
            found.setdefault(statement.target, statement)
            fixed.add(statement.target)
        else:
            body.append(replace(statement, value=_named(statement, fixed, found)))
    return tuple(body)


def _named(statement: Assign, fixed: set[Symbol], found: dict[Symbol, Assign]) -> Typed:
    """The value of a statement, where the largest parts that are tables are read by a name of their own."""

    def visit(expr: Typed) -> Typed:
        if expr.type.level == "const" and _is_table(expr, fixed):
            number = sum(symbol.path.startswith(f"{statement.target.path}.table") for symbol in found)
            path, name = f"{statement.target.path}.table{number}", f"{statement.target.name}_constant"
            symbol = Symbol(path, name, expr.type, expr.interval)
            found[symbol] = Assign(symbol, expr, statement.origin)
            return read(symbol)
        return with_parts(expr, visit)

    return visit(statement.value)


def _is_table(value: Typed, fixed: set[Symbol]) -> bool:
    """Whether a tensor is computed, not only looked at, from tables alone."""
    nodes = list(value.nodes())
    reads_tables = fixed.issuperset(symbols_read(value)) and any(map(reads_symbol, nodes))
    computed = any(
        node.builtin is not None and node.op not in _VIEWS and not node.type.python for node in nodes
    )
    raises = any(node.op == "in_range" for node in nodes)
    return value.type.level == "const" and reads_tables and computed and not raises


def _records(program: Program) -> tuple[Input, ...]:
    return tuple(one for one in program.inputs if one.group)


def _others(program: Program) -> tuple[Input, ...]:
    return tuple(one for one in program.inputs if not one.group)
