"""What constants alone decide is computed once, not at each step."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import field
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.expr.torch_text import VIEWS
from specgen.program.common import value_key
from specgen.program.names import numbered
from specgen.program.program import Assign, Input, InputKind, Output, Program, Statement
from specgen.program.verify import verified
from specgen.program.walk import read, reads, with_body, with_parts
from specgen.values import dataclass, replace

GROUP: Final = "constants"
"""The record in which the steps are given what was computed once."""

_TABLES: Final[tuple[InputKind, ...]] = ("const",)


@verified("any")
def hoist(
    name: str, record: str, programs: Sequence[Program], kinds: Collection[InputKind] = _TABLES
) -> tuple[Program | None, tuple[Program, ...]]:
    """What is computed of inputs that never change, also within an expression, as one program for several others.

    Calls stay where they are, and so does what is stored for each row, what only looks at a tensor, and what may raise.

    Args:
        name: what the program is called.
        record: the record that it returns.
        programs: those that are given it.
        kinds: the inputs that never change: constant tables, and parameters where nobody replaces them.

    Returns:
        The program that computes it, None where there is nothing; and the others, given what they need of it.
    """
    found = _Constants(kinds)
    rest = [replace(program, body=found.taken_out(program)) for program in programs]
    needed = {symbol for program in rest for statement in program.body for symbol in reads(statement)}
    needed |= {output.symbol for program in rest for output in program.outputs}
    names: dict[str, Symbol] = {}
    for symbol in found.made:
        if symbol in needed:
            names[numbered(symbol.name, names)] = symbol
    if not names:
        return None, tuple(programs)
    fixed = {one.symbol: one for program in programs for one in program.inputs if one.kind in kinds}
    outputs = tuple(Output(own, symbol) for own, symbol in names.items())
    once = Program(name, tuple(fixed.values()), tuple(found.made.values()), outputs, record)
    given = tuple(Input(replace(symbol, name=own), "const", GROUP) for own, symbol in names.items())
    return with_body(once, once.body), tuple(_given(program, given) for program in rest)


def _given(program: Program, constants: tuple[Input, ...]) -> Program:
    """A program with those of the constants that it reads among its records."""
    records = tuple(one for one in program.inputs if one.group)
    others = tuple(one for one in program.inputs if not one.group)
    return with_body(replace(program, inputs=(*records, *constants, *others)), program.body)


@dataclass
class _Constants:
    """What inputs of some kinds alone decide, taken out of one program after the other.

    Attributes:
        kinds: of the inputs.
        made: the statements that compute it, by what they define.
        parts: the names of parts of expressions, by their value.
    """

    kinds: Collection[InputKind]
    made: dict[Symbol, Assign] = field(default_factory=dict)
    parts: dict[Hashable, Symbol] = field(default_factory=dict)

    def taken_out(self, program: Program) -> tuple[Statement, ...]:
        """The statements of a program that are left; parts of them are read by a name."""
        fixed = {one.symbol for one in program.inputs if one.kind in self.kinds} | self.made.keys()
        body: list[Statement] = []
        for statement in program.body:
            if not isinstance(statement, Assign) or statement.value.op == "place":
                body.append(statement)
            elif _is_constant(statement.value, fixed):
                self.made.setdefault(statement.target, statement)
                fixed.add(statement.target)
            elif fixed.isdisjoint(statement.value.symbols_read):
                body.append(statement)
            else:
                body.append(replace(statement, value=self._rest(statement.value, statement, fixed)))
        return tuple(body)

    def _rest(self, expr: Typed, statement: Assign, fixed: set[Symbol]) -> Typed:
        """An expression of a statement, where the largest parts that are constant tensors are read by a name."""
        if expr.type.python or not _is_constant(expr, fixed):
            return with_parts(expr, lambda part: self._rest(part, statement, fixed))
        key = value_key(expr)
        if key not in self.parts:
            path, name = (
                f"{statement.target.path}.constant{len(self.made)}",
                f"{statement.target.name}_constant",
            )
            symbol = self.parts[key] = Symbol(path, name, expr.type, expr.interval)
            self.made[symbol] = Assign(symbol, expr, statement.origin)
        return read(self.parts[key])


def _is_constant(value: Typed, fixed: set[Symbol]) -> bool:
    """Whether a number or a tensor is computed, not only looked at, from `fixed` values alone."""
    found = set(value.symbols_read)
    nodes = list(value.nodes)
    if value.op == "store" or not found or not found <= fixed or any(node.op == "in_range" for node in nodes):
        return False
    if value.type.python:
        return True
    computed = (
        node.builtin is not None and node.op not in (*VIEWS, "[]") for node in nodes if not node.type.python
    )
    return value.type.level == "const" and any(computed)
