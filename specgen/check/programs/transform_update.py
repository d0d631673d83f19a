"""What a transform learns from the rows that are new, as a program."""

from __future__ import annotations

from specgen.check.model import identifier, snake
from specgen.check.programs.body import Body
from specgen.check.programs.transform import PhaseProgram, new_rows
from specgen.check.transforms.model import CheckedTransform
from specgen.check.transforms.types import rank_symbol, role_types
from specgen.expr import Symbol, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.conversions import convert
from specgen.expr.dtypes import is_abstract
from specgen.program.cut import live
from specgen.program.program import Assign, Input, Output, Program
from specgen.program.share import share
from specgen.program.walk import read


def update_program(transform: CheckedTransform) -> PhaseProgram | None:
    """The new values of the buffers, in the order in which they are declared; None for what learns nothing."""
    if not transform.update:
        return None
    path = f"transforms.{transform.name}.update"
    new = new_rows(path)
    body = Body(path, new_rows=new)
    buffers = {f"next.{buffer.name}": buffer for buffer in transform.buffers}
    for statement in transform.update:
        typed = body.typed(statement)
        buffer = buffers.get(statement.target)
        if buffer is None and typed.static is not None:
            body.name(statement, typed)
            continue
        if buffer is not None and typed.type.python:
            typed = _filled(transform.symbols[f"buffers.{buffer.name}"], typed)
        elif buffer is not None and not is_abstract(buffer.type.dtype):
            typed = convert(typed, buffer.type.dtype)
        symbol = body.symbol(statement.target, typed.type, full(typed.type.dtype))
        body.statements.append(Assign(symbol, typed, statement.path))
        body.name(statement, read(symbol))
    inputs = [Input(transform.symbols[f"params.{param.name}"], "param") for param in transform.params]
    inputs += [Input(transform.symbols[f"buffers.{buffer.name}"], "buffer") for buffer in transform.buffers]
    inputs += [Input(transform.symbols[f"networks.{one.name}"], "network") for one in transform.networks]
    inputs += _counted(transform)
    inputs.append(Input(new, "data"))
    inputs += _roles(transform, path)
    outputs = tuple(Output(identifier(target), body.bound(target)) for target in buffers)
    name = f"{snake(transform.name)}_update"
    program = Program(name, tuple(inputs), tuple(body.statements), outputs)
    return PhaseProgram(share(live(program)), tuple(buffers))


def buffer_types_program(transform: CheckedTransform) -> Program | None:
    """Values of the types that buffers have which are like expressions, in their order; None where none is."""
    if not transform.buffer_types:
        return None
    path = f"transforms.{transform.name}.buffer_types"
    body = Body(path)
    made = [
        body.add(body.symbol(one.target, one.typed.type), body.typed(one)) for one in transform.buffer_types
    ]
    outputs = tuple(Output(identifier(symbol.name), symbol) for symbol in made)
    params = [Input(transform.symbols[f"params.{param.name}"], "param") for param in transform.params]
    inputs = (*params, *_counted(transform), *_roles(transform, path))
    return share(live(Program(f"{snake(transform.name)}_buffers", inputs, tuple(body.statements), outputs)))


def _counted(transform: CheckedTransform) -> list[Input]:
    """How many dimensions roles have, and the sizes of theirs that have names."""
    ranks = [Input(rank_symbol(role), "param") for role in transform.forward]
    return ranks + [
        Input(transform.symbols[f"sizes.{name}"], "param")
        for name, (role, _) in transform.sizes.items()
        if not role.inverse
    ]


def _roles(transform: CheckedTransform, path: str) -> list[Input]:
    """The roles, as the expressions below a path read them."""
    types = role_types(transform.roles)
    found = []
    for role in transform.forward:
        type_ = types[role.name]
        place = f"{path}.in.{role.name}"
        symbol = Symbol(place, identifier(role.name), type_, full(type_.dtype), "now", (role.name,))
        found.append(Input(symbol, "data"))
    return found


def _filled(buffer: Symbol, value: Typed) -> Typed:
    """A number of Python as a tensor like the buffer."""
    builtin = TABLE["full_like"]
    return Typed("full_like", buffer.type, value.interval, (read(buffer), value), builtin=builtin)
