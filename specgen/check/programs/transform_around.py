"""The parts of `around` by themselves: one program for each, typed for whatever keys the transform will be bound to."""

from __future__ import annotations

from specgen.check.conditions import Atom, Condition
from specgen.check.model import entry_name, snake
from specgen.check.programs.body import Body
from specgen.check.programs.transform import PhaseProgram, conditional_programs, phase_inputs
from specgen.check.transforms.branches import is_nothing, parts_of_rows
from specgen.check.transforms.model import CheckedTransform, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import output_type, role_types
from specgen.expr import Interval, Symbol, Type, full
from specgen.program.program import Input, Program
from specgen.program.walk import read, store


def around_programs(transform: CheckedTransform, phase: Phase) -> list[PhaseProgram]:
    """The programs of a part of `around`, one for each condition under which its targets exist; none where it is not given."""
    statements = transform.phase(phase)
    if not statements:
        return []
    body = Body(f"transforms.{transform.name}.{phase}")
    inputs = _inputs(transform, phase)
    data = {entry_name(one.symbol): one.symbol for one in inputs if one.symbol.key is not None}
    types = role_types(transform.roles)
    types |= {output.name: output_type(output, types) for output in transform.outputs}
    missing = {role.name for role in transform.roles if role.may_be_missing}
    made: dict[str, Symbol] = {}
    whens: dict[str, Condition | None] = {}
    for statement in statements:
        target = statement.target
        if target == phase:
            value = body.typed(statement)
            for when, part in parts_of_rows(value, missing, counts=phase == "reset_steps"):
                if when.atoms and is_nothing(part):
                    continue  # nothing is said of rows then
                name = "_".join(f"{'' if atom.holds else 'no_'}{atom.name}" for atom in when.atoms) or phase
                whens[name] = when if when.atoms else None
                made[name] = body.add(body.symbol(name, part.type, wish=phase), part, statement.path)
        elif target not in types:
            body.assign(statement)
        else:
            value = body.typed(statement)
            like = None if value.type.level == "batch" else data[_shaped_as(transform, phase, target)]
            symbol = body.symbol(target, types[target], full(types[target].dtype), key=(target,))
            made[target] = body.add(symbol, store(value, types[target], like), statement.path)
            whens[target] = _when(transform, target)
            body.name(statement, read(symbol))
    name = f"{snake(transform.name)}_{phase}"
    whole = Program(name, (*inputs, *body.draws), tuple(body.statements), ())
    return conditional_programs(whole, made, whens)


def _when(transform: CheckedTransform, target: str) -> Condition | None:
    """What must hold for a target to exist, a role or an output."""
    for role in transform.roles:
        if role.name == target:
            return Condition((Atom(target, "given", of_key=True),)) if role.may_be_missing else None
    return transform.output(target).when


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
