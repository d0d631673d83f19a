"""Transforms in a chain that a Python class is behind: calls of its methods at their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from specgen.check.chains.model import Instance, Row
from specgen.check.model import Entry
from specgen.check.network_types import CALLED
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainState, Moment
from specgen.expr import Symbol, Typed
from specgen.program.program import Call, Callee, Input
from specgen.program.walk import read, store


def given_by_class(instance: Instance, row: Row, phase: str) -> dict[str, Entry]:
    """The outputs that a method of the class returns, in order: a reset gives no rewards."""
    python = instance.transform.python
    if python is None or phase not in python.phases:
        return {}
    return {name: one for name, one in row.outputs.items() if phase != "reset" or one.role != "reward"}


def call_class(
    state: ChainState,
    instance: Instance,
    row: Row,
    phase: Literal["reset", "step", "map"],
    moment: Moment,
    place: str,
    before: Mapping[Moment, Mapping[str, Symbol]],
    cells: Mapping[str, Symbol],
) -> None:
    """Add the call of a method, if the class has it; the arguments are those of any transform."""
    made = given_by_class(instance, row, phase)
    inputs = [before[moment].get(entry.dotted) for entry in row.inputs.values()]
    known = [symbol for symbol in inputs if symbol is not None]
    if not made or len(known) < len(inputs):
        return  # a reset gives no reward
    carried = [one.name for one in instance.transform.outputs if one.carry] if phase == "step" else []
    origin = f"{state.path}.transforms[{instance.position}]"
    body = state.bodies[moment]
    local = Body(f"{body.path}.{place}.{phase}")
    name = instance.field
    python = Symbol(f"{state.path}.objects.{name}", name, CALLED)
    state.networks.setdefault(f"objects.{name}", Input(python, "function", "objects"))
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
    args = tuple(_logical(one) for one in (*(cells[name] for name in carried), *known))
    callee = Callee(phase, receiver=python, returns_tuple=True)
    local.statements.append(Call(tuple(targets), callee, args, origin=origin))
    for symbol, value in stored:
        local.add(symbol, value, origin)
    body.statements += local.statements


def _logical(symbol: Symbol) -> Typed:
    """A value without the trailing 1 that it may be stored with."""
    return store(read(symbol), replace(symbol.type, col=False)) if symbol.type.col else read(symbol)
