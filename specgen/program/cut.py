"""Dead code: what some outputs need of a program, and which values it is then given instead of computing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from specgen.expr import Symbol
from specgen.program.program import Input, Output, Program, Statement
from specgen.program.verify import verified
from specgen.program.walk import defined, reads, targets


@verified("fewer")
def cut(program: Program, outputs: Iterable[Output], given: Iterable[Symbol] = ()) -> Program:
    """The part of a program that some of its values need.

    Args:
        program: the program.
        outputs: what the part returns.
        given: values that the part is given where it needs them; they become inputs, behind the program's own.
    """
    outputs = tuple(outputs)
    given = dict.fromkeys(given)
    needed = {output.symbol for output in outputs}
    kept: list[Statement] = []
    for statement in reversed(program.body):
        if any(target in needed and target not in given for target in targets(statement)):
            kept.append(statement)
            needed.update(reads(statement))
    kept.reverse()
    known = {one.symbol for one in program.inputs}
    made = {target for statement in kept for target in targets(statement)}
    inputs = [one for one in program.inputs if one.symbol in needed]
    inputs += [Input(symbol, "data") for symbol in given if symbol in needed and symbol not in known | made]
    return replace(program, inputs=tuple(inputs), body=tuple(kept), outputs=outputs)


def live(program: Program) -> Program:
    """The program without what its outputs don't need."""
    return cut(program, program.outputs)


def in_order(body: Sequence[Statement]) -> list[Statement]:
    """The statements so that each stands behind what it reads; otherwise as they were."""
    makers = defined(body)
    done: dict[int, Statement] = {}

    def place(statement: Statement) -> None:
        if id(statement) in done:
            return
        for symbol in reads(statement):
            if symbol in makers and makers[symbol] is not statement:
                place(makers[symbol])
        done[id(statement)] = statement

    for statement in body:
        place(statement)
    return list(done.values())
