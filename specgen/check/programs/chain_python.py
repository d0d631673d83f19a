"""Transforms in a chain that a Python class is behind: calls of its methods at their place."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.chains.model import Instance, Row
from specgen.check.model import Entry, identifier
from specgen.check.network_types import CALLED
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState, PhaseRun
from specgen.check.programs.env import either
from specgen.check.transforms.python import gives
from specgen.expr import Symbol, Typed, full
from specgen.program.program import Call, Callee, Input
from specgen.program.walk import read, store
from specgen.values import replace


def given_by_class(instance: Instance, row: Row, phase: str) -> dict[str, Entry]:
    """The outputs that a method of the class returns, in order."""
    python = instance.transform.python
    if python is None or phase not in python.phases:
        return {}
    return {name: one for name, one in row.outputs.items() if gives(instance.transform.output(name), phase)}


def call_class(run: PhaseRun) -> list[Entry]:
    """Add the call of a method, if the class has it; the arguments are those of any transform.

    Returns:
        The done flags that it raises.
    """
    state, instance, row, moment = run.state, run.instance, run.row, run.moment
    phase, before, cells, origin = run.phase, run.before, run.cells, run.origin
    made = given_by_class(instance, row, phase)
    inputs = {name: before[moment].get(entry.dotted) for name, entry in row.inputs.items()}
    known = {name: symbol for name, symbol in inputs.items() if symbol is not None}
    if not made or len(known) < len(inputs):
        return []  # a reset gives no reward
    optional = {role.name for role in instance.transform.forward if role.may_be_missing}
    always = [symbol for name, symbol in known.items() if name not in optional]
    sometimes = {name: symbol for name, symbol in known.items() if name in optional}
    carried: list[Symbol] = []
    for one in instance.transform.outputs if phase == "step" else ():
        if one.carry and one.when is None:
            carried.append(cells[one.name])
        elif one.carry and one.name in row.outputs:
            sometimes[one.name] = cells[one.name]
    body, local = state.bodies[moment], run.local_body()
    so_far = dict(state.views[moment])
    targets, stored = [], []
    for output, entry in made.items():
        later = moment == "next" and entry.role != "reward"
        wish = f"next_{entry.name}" if later else entry.name
        time = "next" if moment == "next" else "now"
        symbol = local.symbol(
            output,
            entry.type,
            entry.spec.interval,
            wish=wish,
            alias=f"{wish}_{output}",
            key=entry.key,
            time=time,
        )
        if not (entry.role == "reward" and moment != "next"):
            state.views[moment][entry.dotted] = symbol
        if entry.type.col:
            plain = local.symbol(f"{output}.plain", replace(entry.type, col=False), wish=f"{wish}_rows")
            targets.append(plain)
            stored.append((symbol, store(read(plain), entry.type)))
        else:
            targets.append(symbol)
        if entry.role == "done" and (before_it := so_far.get(entry.dotted)) is not None:
            raised = local.symbol(
                f"{output}.raised", entry.type, full("bool"), wish=wish, key=entry.key, time=time
            )
            stored.append((raised, either(before_it, symbol, entry.type)))
            state.views[moment][entry.dotted] = raised
    args = tuple(_logical(one) for one in (*carried, *always))
    named = tuple((name, _logical(symbol)) for name, symbol in sometimes.items())
    callee = Callee(phase, receiver=_object(state, instance), returns_tuple=True)
    local.statements.append(Call(tuple(targets), callee, args, named=named, origin=origin))
    for symbol, value in stored:
        local.add(symbol, value, origin)
    body.statements += local.statements
    return [entry for entry in made.values() if entry.role == "done"]


def call_inverse(
    state: ChainState, body: Body, instance: Instance, row: Row, place: str, written: Mapping[str, Symbol]
) -> dict[str, Symbol]:
    """Add the call of the method that computes what the environment is given of what the policy wrote.

    Args:
        state: the chain so far.
        body: takes the call.
        instance: the transform in its chain.
        row: the keys of one repetition of it.
        place: a name for the repetition, in paths.
        written: what the policy wrote, by key.

    Returns:
        What the environment is given, by the names of roles.
    """
    local = Body(f"{body.path}.{place}")
    targets = {
        role: local.symbol(role, entry.type, full(entry.type.dtype), wish=f"{entry.name}_{identifier(role)}")
        for role, entry in row.inputs.items()
    }
    given = {name: _logical(written[entry.dotted]) for name, entry in row.outputs.items()}
    always = {name for name in given if instance.transform.output(name).when is None}
    args = tuple(value for name, value in given.items() if name in always)
    named = tuple((name, value) for name, value in given.items() if name not in always)
    callee = Callee("inverse", receiver=_object(state, instance), returns_tuple=True)
    origin = f"{state.path}.transforms[{instance.position}]"
    body.statements.append(Call(tuple(targets.values()), callee, args, named=named, origin=origin))
    return targets


def _object(state: ChainState, instance: Instance) -> Symbol:
    """The object of the class behind a transform, as an input of the chain's functions."""
    name = instance.field
    made = Symbol(f"{state.path}.objects.{name}", name, CALLED)
    state.networks.setdefault(f"objects.{name}", Input(made, "function", "objects"))
    return made


def _logical(symbol: Symbol) -> Typed:
    """A value without the trailing 1 that it may be stored with."""
    return store(read(symbol), replace(symbol.type, col=False)) if symbol.type.col else read(symbol)
