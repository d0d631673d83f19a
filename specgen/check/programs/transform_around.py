"""The parts of `around` by themselves: one program for each, typed for whatever keys the transform will be bound to."""

from __future__ import annotations

from specgen.check.model import entry_name, identifier, snake
from specgen.check.programs.body import Body
from specgen.check.programs.transform import PhaseProgram, phase_inputs
from specgen.check.transforms.model import CheckedTransform, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import output_type, role_types
from specgen.expr import Interval, Symbol, Type, full
from specgen.program.cut import cut
from specgen.program.program import Input, Output, Program
from specgen.program.walk import read, store


def around_program(transform: CheckedTransform, phase: Phase) -> PhaseProgram | None:
    """The program of a part of `around`; None where it is not given."""
    statements = transform.phase(phase)
    if not statements:
        return None
    body = Body(f"transforms.{transform.name}.{phase}")
    inputs = _inputs(transform, phase)
    data = {entry_name(one.symbol): one.symbol for one in inputs if one.symbol.key is not None}
    types = role_types(transform.roles)
    types |= {output.name: output_type(output, types) for output in transform.outputs}
    made: dict[str, Symbol] = {}
    for statement in statements:
        target = statement.target
        if target == phase:
            value = body.assign(statement)
            made[target] = value.symbol or body.add(body.symbol(target, value.type), value, statement.path)
        elif target not in types:
            body.assign(statement)
        else:
            value = body.typed(statement)
            like = None if value.type.level == "batch" else data[_shaped_as(transform, phase, target)]
            symbol = body.symbol(target, types[target], full(types[target].dtype), key=(target,))
            made[target] = body.add(symbol, store(value, types[target], like), statement.path)
            body.name(statement, read(symbol))
    outputs = tuple(Output(identifier(target), symbol) for target, symbol in made.items())
    name = f"{snake(transform.name)}_{phase}"
    program = Program(name, (*inputs, *body.draws), tuple(body.statements), outputs)
    return PhaseProgram(cut(program, outputs), tuple(made))


def _shaped_as(transform: CheckedTransform, phase: Phase, target: str) -> str:
    """The name of a tensor that has the shape of a target whose expression reads none."""
    if phase == "action":
        return next(output.name for output in transform.outputs if output.each == target)
    source = target if phase == "fold" else transform.output(target).each
    return f"next.{source}"


def _inputs(transform: CheckedTransform, phase: Phase) -> tuple[Input, ...]:
    """Those of any phase; then what is folded so far, and the number of the repetition."""
    path = f"transforms.{transform.name}.{phase}.in"
    found = list(phase_inputs(transform, phase))
    types = role_types(transform.roles)
    for role in transform.folded:
        type_ = types[role.name]
        symbol = Symbol(
            f"{path}.acc.{role.name}",
            f"acc_{role.name}",
            type_,
            full(type_.dtype),
            "now",
            ("acc", role.name),
        )
        found.append(Input(symbol, "data"))
    nth = Symbol(f"{path}.{NTH}", NTH, Type("int64", (), "ctor"), Interval(0, 2**31))
    return (*found, Input(nth, "param"))
