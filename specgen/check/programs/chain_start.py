"""What a chain begins with: calls of the environment's functions, or what Gymnasium returned."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.model import Entry, dotted, identifier
from specgen.check.names import INVERSE
from specgen.check.programs.body import Body
from specgen.check.programs.chain_state import ChainCell, ChainState
from specgen.check.programs.chain_transforms import environment_actions
from specgen.check.programs.env import either
from specgen.expr import ANYTHING, Symbol
from specgen.expr.symbols import Time
from specgen.program.program import DONE_FLAGS, ENDING_FLAGS, Call, Callee, Cell, Component, Input, Program
from specgen.program.walk import read
from specgen.values import replace


def begin_with_environment(state: ChainState, env: Component) -> None:
    """Begin with calls of the environment's functions."""
    parts = state.env.parts
    assert parts is not None
    assert parts.reset is not None
    reset, step = state.bodies["reset"], state.bodies["next"]
    current = {cell.now: replace(cell.now, path=f"{state.path}.cells.{cell.name}") for cell in env.cells}
    fresh = _call(state, reset, parts.reset, {}, "now")
    state.sent = actions = environment_actions(state, step)
    state.acted = len(step.statements)
    inner = {symbol: actions[name] for name, symbol in state.env.actions.items()}
    after = _call(state, step, parts.advance, {**current, **inner}, "next")
    for cell in env.cells:
        name = identifier(cell.name)
        now = current[cell.now]
        state.see(cell.name, reset=fresh[name], now=now, next=after[name])
        made = Cell(name, now, fresh[name], after[name], cell.key)
        state.cells.append(ChainCell(made, _entry(state, cell)))
    for output in parts.promoted:
        state.see(dotted(output.key or ()), next=after[output.name])
    if parts.reward is not None:
        # What a step never changes is read from before it.
        seen = {cell.next: after[identifier(cell.name)] for cell in env.cells} | current | inner
        for name, symbol in _call(state, step, parts.reward, seen, "next").items():
            state.see(dotted(symbol.key or (name,)), next=symbol)
    if parts.observe is not None:
        for moment, body in state.bodies.items():
            seen = {cell.now: state.views[moment][cell.name] for cell in env.cells}
            time: Time = "next" if moment == "next" else "now"
            for name, symbol in _call(state, body, parts.observe, seen, time).items():
                state.views[moment][dotted(symbol.key or (name,))] = symbol
                state.observed.add(symbol)


def begin_with_gymnasium(state: ChainState) -> None:
    """Begin with what Gymnasium returned of the action that inverses gave it; with a call of it, where it is repeated."""
    env = state.chain.env.value
    around = (one.transform.around for one in state.chain.instances)
    repeated = any(one is not None and one.kind != "reset_steps" for one in around)
    if not repeated and any(instance.inverse_rows for instance in state.chain.instances):
        state.inverse = Body(f"{state.path}.{INVERSE}")
        state.sent = environment_actions(state, state.inverse)
    returned: list[Symbol] = []
    for entry in env.observation:
        now = _of_gymnasium(state, entry, "cells", entry.name, "now")
        first = _of_gymnasium(state, entry, "gymnasium.reset", entry.name, "now")
        after = _of_gymnasium(state, entry, "gymnasium.step", f"next_{entry.name}", "next")
        returned.append(after)
        state.begun.append(first)
        state.see(entry.dotted, reset=first, now=now, next=after)
        state.cells.append(ChainCell(Cell(entry.name, now, first, after, entry.key), entry))
    for entry in env.reward:
        symbol = _of_gymnasium(state, entry, "gymnasium.step", entry.name, "next")
        returned.append(symbol)
        state.see(entry.dotted, next=symbol)
    for flag in DONE_FLAGS:
        after = state.flag((flag,), "gymnasium.step", "next")
        if flag in ENDING_FLAGS:
            returned.append(after)
        state.add_flag((flag,))
        state.views["next"][flag] = after
    step = state.bodies["next"]
    if repeated:
        _step_gymnasium(state, step, returned)
    else:
        state.given = [Input(one, "given") for one in returned]
    ending = [state.views["next"][flag] for flag in ENDING_FLAGS]
    step.add(state.views["next"]["done"], either(ending[0], ending[1]))


def _step_gymnasium(state: ChainState, step: Body, returned: list[Symbol]) -> None:
    """Add the call that takes a step of Gymnasium's."""
    env = state.chain.env.value
    state.sent = actions = environment_actions(state, step)
    state.acted = len(step.statements)
    callee = Callee("step", effect="steps", receiver=state.dynamics(), returns_tuple=True)
    args = tuple(read(actions[entry.dotted]) for entry in env.action)
    step.statements.append(Call(tuple(returned), callee, args, origin=f"envs.{env.name}"))


def _call(
    state: ChainState, body: Body, program: Program, seen: Mapping[Symbol, Symbol], time: Time
) -> dict[str, Symbol]:
    """Add a call of one of the environment's functions; its draws become the chain's.

    Returns:
        What it returns, by name.
    """
    made: dict[str, Symbol] = {}
    for output in program.outputs:
        symbol = output.symbol
        flag = output.key is not None and output.key[-1] in DONE_FLAGS
        later = time == "next" and not flag and output.role in ("cell", "observation")
        wish = f"next_{identifier(output.name)}" if later else identifier(output.name)
        made[output.name] = body.symbol(
            f"{program.name}.{output.name}",
            symbol.type,
            symbol.interval,
            wish=wish,
            key=output.key,
            time=time,
        )
    for one in program.inputs:
        if one.kind == "draw" and one not in body.draws:
            body.draw(one)
    args = tuple(read(seen.get(one.symbol, one.symbol)) for one in program.inputs)
    fields = tuple(made) if program.record is not None else ()
    once = any(output.role == "cell" for output in program.outputs)
    callee = Callee(program.name, program, "steps" if once else "pure")
    called = "base" if once else "observed" if program.outputs[0].role == "observation" else "rewards"
    origin = f"envs.{state.chain.env.value.name}"
    body.statements.append(
        Call(tuple(made.values()), callee, args, fields=fields, called=called, origin=origin)
    )
    return made


def _entry(state: ChainState, cell: Cell) -> Entry:
    """The entry of the environment that a cell of its holds."""
    env = state.chain.env.value
    for entry in (*env.state, *env.observation):
        if entry.key == cell.key:
            return entry
    return state.chain.entries[cell.name]


def _of_gymnasium(state: ChainState, entry: Entry, place: str, name: str, time: Time) -> Symbol:
    values = ANYTHING if entry.role == "reward" else entry.spec.interval
    return Symbol(f"{state.path}.{place}.{entry.name}", name, entry.type, values, time, entry.key)
