"""A step for all times of several episodes at once, where everything it reads has a closed form over time."""

from __future__ import annotations

from typing import Final

from specgen.expr import Symbol, Type, Typed
from specgen.program.cut import cut, in_order
from specgen.program.inline import inline
from specgen.program.lift import Lift, Lifted, Rule
from specgen.program.program import Assign, Call, Callee, Component, Input, Output, Program, Statement
from specgen.program.stored import copies
from specgen.program.walk import known, read, store, with_body
from specgen.values import replace

FIRSTS: Final = "firsts"
"""The record of what each episode begins with."""

LENGTHS: Final = Symbol("lengths", "lengths", Type("int64", (), "ctor"))
"""How many steps each episode has."""

_FUNCTIONS: Final[dict[Rule, str]] = {
    "kept": "kept_before",
    "shifted": "shifted_before",
    "count": "counts_before",
    "sum": "sums_before",
    "max": "maxima_before",
    "min": "minima_before",
    "any": "any_before",
    "all": "all_before",
    "affine": "affine_before",
}
"""The function of the runtime that gives the values of a cell before each step, by rule."""


def lifted(component: Component, lift: Lift, advance: Program) -> Program | None:
    """The program of `advance` for all steps; None where it reads something that needs the loop.

    Args:
        component: a chain over an environment that somebody else steps.
        lift: what is known of its cells.
        advance: its step, cut; what the wrapped environment returned has time in front in the lifted program.
    """
    solved = {one.cell.now: one for one in lift.solved}
    wanted = [one.symbol for one in advance.inputs if one.kind in ("state", "flag")]
    if lift.undecided or any(symbol not in solved for symbol in wanted):
        return None
    if any(one.kind == "draw" for one in advance.inputs):
        return None  # numbers are drawn step by step
    step = inline(component.phases["step"])
    # What the world returned tells how many steps there are; what episodes begin with does not.
    rows = next((one.symbol for one in step.inputs if one.kind == "given"), None)
    body: list[Statement] = []
    firsts: list[Input] = []
    for one in lift.solved:
        now = one.cell.now
        first = replace(now, path=f"{FIRSTS}.{now.path}", name=one.cell.name)
        firsts.append(Input(first, "data", FIRSTS))
        body += _before(one, first, rows)
    # What the terms read is computed by the step itself, for all steps at once.
    body = [*(statement for statement in step.body if isinstance(statement, Assign)), *body]
    result = Symbol(f"{advance.name}.all", "after", Type("record", ()))
    args = tuple(read(one.symbol) for one in advance.inputs)
    body.append(Call((result,), Callee(advance.name, advance), args))
    inputs = (*firsts, *step.inputs, Input(LENGTHS, "param"))
    inputs = tuple(one for one in inputs if one.symbol not in solved)
    program = Program(f"{component.name}.lifted", inputs, tuple(body), (Output("after", result),))
    return _in_time(program)


def _in_time(program: Program) -> Program:
    """The program with dead code gone, copies gone, and each statement behind what it reads."""
    program = replace(program, body=tuple(in_order(program.body)))
    program = copies(cut(program, program.outputs))
    return with_body(program, program.body)


def _before(one: Lifted, first: Symbol, rows: Symbol | None) -> list[Statement]:
    """The statements that give a cell before each step; a number in them becomes one for each of `rows`."""
    cell, kind = one.cell, one.cell.now.type
    made: list[Statement] = []
    args: list[Typed] = [read(first)]
    for name, value in (("factor", one.factor), ("term", one.term)):
        if value is not None:
            symbol = Symbol(f"{cell.now.path}.{name}", f"{cell.now.name}_{name}", kind)
            plain = value.op == "name" and value.static is None and value.type == kind
            like = rows if value.type.level != "batch" else None
            made.append(Assign(symbol, value if plain else store(value, kind, like)))
            args.append(read(symbol))
    args.append(read(LENGTHS))
    named = (("by", known(one.by)),) if one.rule == "count" and one.by != 1 else ()
    function = "products_before" if one.rule == "affine" and one.term is None else _FUNCTIONS[one.rule]
    made.append(Call((cell.now,), Callee(function), tuple(args), named))
    return made
