"""Dead code: what some outputs need of a program, and which values it is then given instead of computing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from specgen.expr import Symbol
from specgen.program.program import Call, Input, Output, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import defined, reads, targets
from specgen.values import replace


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
        if _is_draw(statement) or any(
            target in needed and target not in given for target in targets(statement)
        ):
            if isinstance(statement, Region):
                statement = _cut_region(statement, needed)
            kept.append(statement)
            needed.update(reads(statement))
    kept.reverse()
    inputs = [one for one in program.inputs if one.symbol in needed]
    known = {one.symbol for one in inputs}
    known.update(target for statement in kept for target in targets(statement))
    inputs += [Input(symbol, "data") for symbol in given if symbol in needed and symbol not in known]
    return replace(program, inputs=tuple(inputs), body=tuple(kept), outputs=outputs)


def _is_draw(statement: Statement) -> bool:
    """Whether a statement draws random numbers, which is done whether or not anything reads them: so others stay as they are."""
    return isinstance(statement, Call) and statement.callee.draw is not None


def _cut_region(region: Region, needed: AbstractSet[Symbol]) -> Region:
    """The part of a region that some values behind it need: neither carried nor computed is what only feeds itself."""
    results = tuple(pair for pair in region.results if pair[0] in needed)
    inside = {inner for _, inner in results} | ({region.mask} if region.mask is not None else set())
    inside |= {one.inner for one in region.carried if one.result in needed}
    body: list[Statement] = []
    before = -1
    while len(inside) > before:
        before = len(inside)
        inside |= {one.after for one in region.carried if one.inner in inside}
        body = []
        for statement in reversed(region.body):
            if _is_draw(statement) or not inside.isdisjoint(targets(statement)):
                if isinstance(statement, Region):
                    statement = _cut_region(statement, inside)
                body.append(statement)
                inside.update(reads(statement))
    carried = tuple(one for one in region.carried if one.inner in inside)
    return replace(region, body=tuple(reversed(body)), carried=carried, results=results)


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
