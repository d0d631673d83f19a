"""Inlining: calls of known programs are replaced by the statements of the programs."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.expr import Symbol, Typed
from specgen.program.program import Assign, Call, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import read, reads_symbol, rewritten
from specgen.values import replace


@verified("inlined")
def inline(program: Program) -> Program:
    """The program with the statements of what it calls in place of the calls, in regions and in callees, too.

    Their symbols get paths below that of the first value of the call, so that two calls of one program stay apart.
    """
    return replace(program, body=tuple(_inlined(program.body, program.name)))


def _inlined(body: Sequence[Statement], place: str) -> list[Statement]:
    made: list[Statement] = []
    for index, statement in enumerate(body):
        if isinstance(statement, Region):
            inner = _inlined(statement.body, f"{place}.{statement.kind}{index}")
            made.append(replace(statement, body=tuple(inner)))
        elif isinstance(statement, Call) and statement.callee.program is not None:
            path = statement.targets[0].path if statement.targets else f"{place}.call{index}"
            made += _body_of(statement, statement.callee.program, path)
        else:
            made.append(statement)
    return made


def _body_of(call: Call, callee: Program, path: str) -> list[Statement]:
    """The statements of a callee, with the arguments in place of its inputs and the call's values for its outputs."""
    before: list[Statement] = []
    known: dict[Symbol, Typed] = {}
    for one, arg in zip(callee.inputs, call.args, strict=True):
        if not reads_symbol(arg):
            kind = one.symbol.type if arg.type.python else arg.type
            named = replace(one.symbol, path=f"{path}/{one.symbol.path}", type=kind, key=None)
            before.append(Assign(named, arg))
            arg = read(named)
        known[one.symbol] = arg
    # A value that is returned once takes the name that it has behind the call.
    results: dict[Symbol, Symbol] = {}
    for target, output in zip(call.targets, callee.outputs, strict=True):
        if output.symbol not in known:
            results.setdefault(output.symbol, target)

    def renamed(symbol: Symbol) -> Symbol:
        made = results.get(symbol) or replace(symbol, path=f"{path}/{symbol.path}")
        known[symbol] = read(made)
        return made

    body = [rewritten(one, known, renamed) for one in _inlined(callee.body, callee.name)]
    behind: list[Statement] = []
    for target, output in zip(call.targets, callee.outputs, strict=True):
        value = known[output.symbol]
        if value.symbol != target:
            behind.append(Assign(target, value))
    return [*before, *body, *behind]
