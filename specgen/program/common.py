"""Statements that compute what an earlier one has: each value is made once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from specgen.expr import Symbol, Typed
from specgen.expr.types import At
from specgen.program.program import Assign, Call, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import read, rewritten, symbol_for, targets
from specgen.values import replace


def value_key(expr: Typed) -> Hashable:
    """What two expressions of one value have in common: all of it but the places in the source text."""
    if expr.static is not None:
        return ("known", expr.type.dtype, expr.type.level, repr(expr.static))
    kind = (expr.type, expr.type.level)
    own = expr.symbol if expr.op == "name" else expr.text
    items = tuple(("at", value_key(item.index)) if isinstance(item, At) else item for item in expr.items)
    options = tuple(
        (name, value_key(value) if isinstance(value, Typed) else repr(value))
        for name, value in sorted(expr.options.items())
    )
    called = (expr.function.text if expr.function else "", expr.captured)
    return (expr.op, own, kind, tuple(map(value_key, expr.args)), items, options, called)


@verified()
def common(program: Program) -> Program:
    """The program without statements whose value an earlier one has.

    Pure calls count, calls with effects don't; draws are inputs, so none is merged with another. What stands before
    a region is known in it, but not in `no_grad`: a value from outside would bring its gradient along.
    """
    same: dict[Symbol, Typed] = {}
    body = _merged(program.body, {}, same, frozenset())
    outputs = tuple(replace(output, symbol=symbol_for(output.symbol, same)) for output in program.outputs)
    return replace(program, body=body, outputs=outputs)


def _merged(
    body: Sequence[Statement],
    known: dict[Hashable, tuple[Symbol, ...]],
    same: dict[Symbol, Typed],
    ends: frozenset[Symbol],
) -> tuple[Statement, ...]:
    """The statements without repeated ones; `ends` are what a region around them hands on and has to define."""
    kept: list[Statement] = []
    for statement in body:
        statement = rewritten(statement, same)
        if isinstance(statement, Region):
            inner = {} if statement.kind == "no_grad" else dict(known)
            own = {one.after for one in statement.carried} | {bound for _, bound in statement.results}
            statement = replace(statement, body=_merged(statement.body, inner, same, frozenset(own)))
        key, made = _key(statement), targets(statement)
        if key is None or ends.intersection(made):
            kept.append(statement)
        elif key in known:
            same.update(zip(made, map(read, known[key]), strict=True))
        else:
            known[key] = made
            kept.append(statement)
    return tuple(kept)


def _key(statement: Statement) -> Hashable | None:
    """What two statements of the same values have in common; None where it has to stay."""
    match statement:
        case Assign():
            return value_key(statement.value)
        case Call() if statement.callee.effect == "pure":
            callee = statement.callee
            args = tuple(map(value_key, statement.args))
            named = tuple((name, value_key(value)) for name, value in statement.named)
            return (callee.name, id(callee.program), callee.receiver, args, named, statement.fields)
        case _:
            return None
