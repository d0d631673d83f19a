"""What a step is worth in hindsight: the reward of an environment as a function of what was achieved and of the goal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from specgen.check.model import CheckedEnv, Entry, dotted
from specgen.check.programs.env import EnvPrograms
from specgen.expr import Symbol, Type, Typed, full, point
from specgen.expr.builtins.table import TABLE
from specgen.expr.dtypes import is_float, is_int
from specgen.expr.sizes import Dim
from specgen.expr.symbols import Key
from specgen.expr.types import At, Cut, NewAxis
from specgen.literals import literal
from specgen.program.program import Assign, Cell, Input, Output, Program, Statement
from specgen.program.walk import known, read, reads, rewritten, store, targets
from specgen.values import dataclass, replace

_LARGEST_TABLE = 64
"""So many numbers a constant table has at most that is written out."""


@dataclass(frozen=True)
class Obstacle:
    """Why what a step gives is no function of what was achieved and of the goal alone.

    Attributes:
        reads: what it reads besides, as messages call it; empty where it does not read the goal.
        hidden: the observation that shows nothing of the state; empty where both show some.
        moves: whether a step changes the goal that it reads.
    """

    reads: tuple[str, ...] = ()
    hidden: str = ""
    moves: bool = False


def hindsight_program(env: CheckedEnv, key: Key, achieved: Entry, desired: Entry) -> Program | Obstacle:
    """What a step of a native environment gives, as a function of two observations.

    What an observation shows of the state is read from it: entries as they are, cast from whole numbers or truth values,
    stacked, or one behind the other. The step itself is left out: what comes behind it is known from what was achieved.

    Args:
        env: the environment.
        key: of what it gives, a `reward` or `terminated`.
        achieved: the observation of what was achieved.
        desired: the observation of the goal.

    Returns:
        The function; or what stands in the way.
    """
    made = EnvPrograms(env)
    component = made.component()
    cells = {cell.now: cell for cell in component.cells}
    observe, step = component.phases["observe"], component.phases["step"]
    symbol = next(output.symbol for output in step.outputs if output.key == key)
    all_needed = _needed(step.body, symbol, {})
    whole = _free(all_needed, set())
    # also what a step draws anew: it is read, and nothing of the state before decides it
    touched = {one for statement in all_needed for one in reads(statement)}
    own = {*made.state.values()}
    read_of_state = {one for one, cell in cells.items() if one in own and touched & {one, cell.next}}
    if not read_of_state:
        return Obstacle()
    given = {achieved: _given(achieved, "achieved_goal"), desired: _given(desired, "desired_goal")}
    shown = {
        entry: {
            one: value
            for one, value in _shown(observe, made.state, entry, read(given[entry]))
            if one in cells  # and not a parameter
        }
        for entry in given
    }
    for entry in given:
        if not shown[entry]:
            return Obstacle(hidden=dotted(entry.key))
    stepped = _defined(step)
    kept = {cell.next for cell in component.cells if cell.next == cell.now or _copied(cell, stepped)}
    goals = [one for one in shown[desired] if cells[one].next in kept]
    values = dict[Symbol, Typed]()
    for one, value in shown[achieved].items():
        if one not in goals:
            values |= _inverse(read(cells[one].next), value, stepped)
    values |= {each: shown[desired][one] for one in goals for each in (one, cells[one].next)}
    if not set(goals) & set(whole):
        moving = set(shown[desired]) - set(shown[achieved])
        return Obstacle(moves=bool(moving & read_of_state))
    body = _with_tables(env, made, _needed(step.body, symbol, values))
    free = _free(body, set(values))
    params = tuple(one for one in made.fixed if one.group == "params" and one.symbol in free)
    hidden = [one for one in free if one not in {param.symbol for param in params}]
    if hidden:
        drawn = {one.symbol for one in step.inputs if one.draw is not None}
        words = ("random numbers" if one in drawn else f"`{_called(one)}`" for one in hidden)
        return Obstacle(tuple(dict.fromkeys(words)))
    inputs = (*params, *(Input(one, "data") for one in given.values()))
    needed = {one for statement in body for one in reads(statement)}
    recovered = (
        Assign(one, store(value, one.type)) for one, value in values.items() if one in needed or one == symbol
    )
    return Program(f"{key[-1]}_in_hindsight", inputs, (*recovered, *body), (Output(key[-1], symbol),))


def _with_tables(env: CheckedEnv, made: EnvPrograms, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Statements in which small constant tables are written out: the function stands elsewhere than the environment."""
    if not all(isinstance(one, Assign) for one in body):
        return body
    tables = {one.name: one for one in env.consts if math.prod(one.type.shape) <= _LARGEST_TABLE}
    written = {
        one.symbol: _table(tables[one.symbol.name].value, one.symbol.type)
        for one in made.fixed
        if one.group == "consts" and one.symbol.name in tables
    }
    return tuple(rewritten(one, written) for one in body)


def _table(value: Any, kind: Type) -> Typed:
    """A constant table as an expression: its numbers, stacked."""
    if not kind.dims:
        plain = bool(value) if kind.dtype == "bool" else float(value) if is_float(kind.dtype) else int(value)
        return Typed("literal", replace(kind, level="lit"), point(plain), text=literal(plain), static=plain)
    rows = tuple(_table(one, replace(kind, dims=kind.dims[1:])) for one in value)
    values = rows[0].interval
    for one in rows[1:]:
        values = values.hull(one.interval)
    return Typed("stack", kind, values, rows, {"axis": 0}, builtin=TABLE["stack"])


def _copied(cell: Cell, stepped: Mapping[Symbol, Typed]) -> bool:
    """Whether a step writes an entry of the state as it was, `next.goal: goal`."""
    value = stepped.get(cell.next)
    while value is not None and value.op == "store" and len(value.args) == 1:
        value = value.args[0]
    return value is not None and value.op == "name" and value.symbol == cell.now


def _given(entry: Entry, name: str) -> Symbol:
    """What the functions are given of an observation, and what they call it."""
    return Symbol(f"hindsight.{name}", name, entry.type, entry.spec.interval, key=entry.key)


def _shown(
    observe: Program, state: Mapping[str, Symbol], entry: Entry, value: Typed
) -> Iterable[tuple[Symbol, Typed]]:
    """The entries of the state that an observation shows, each as it is read from that."""
    if entry.role == "state":
        return [(state[entry.dotted], value)]
    symbol = next(output.symbol for output in observe.outputs if output.key == entry.key)
    return list(_inverse(read(symbol), value, _defined(observe)))


def _defined(program: Program) -> Mapping[Symbol, Typed]:
    """What each symbol is that a statement defines as an expression."""
    return {target: one.value for one in program.body if isinstance(one, Assign) for target in targets(one)}


def _inverse(shown: Typed, value: Typed, made: Mapping[Symbol, Typed]) -> Iterable[tuple[Symbol, Typed]]:
    """What the symbols are of which an expression is made, where that has a value."""
    if shown.op == "name" and shown.symbol is not None and shown.static is None:
        yield shown.symbol, value
        if shown.symbol in made:
            yield from _inverse(made[shown.symbol], value, made)
    elif shown.op == "store" and len(shown.args) == 1:
        yield from _inverse(shown.args[0], value, made)
    elif shown.op == "cast" and len(shown.args) == 1:
        (inner,) = shown.args
        if _keeps_all(inner, shown.type.dtype):
            kind = replace(value.type, dtype=inner.type.dtype)
            values = full("bool") if inner.type.dtype == "bool" else inner.interval
            yield from _inverse(inner, Typed("cast", kind, values, (value,), builtin=shown.builtin), made)
    elif shown.op == "stack" and isinstance(axis := shown.options["axis"], int):
        for index, one in enumerate(shown.args):
            yield from _inverse(one, _part(value, axis, At(known(index))), made)
    elif shown.op == "concat" and isinstance(axis := shown.options["axis"], int):
        start: Dim = 0
        for one in shown.args:
            size = one.type.sizes[axis] if one.type.sizes else None
            if size is None:
                return
            yield from _inverse(one, _part(value, axis, Cut(start, start + size, 1)), made)
            start += size
    elif shown.op == "[]" and (axis := _new_axis(shown)) is not None:
        yield from _inverse(shown.args[0], _part(value, axis, At(known(0))), made)


def _part(value: Typed, axis: int, item: At | Cut) -> Typed:
    """What is at one place of a dimension, or some places of it."""
    dims = value.type.sizes or ()
    own = () if isinstance(item, At) else (item.length,)
    kind = replace(value.type, dims=(*dims[:axis], *own, *dims[axis + 1 :]))
    items = (*(Cut(0, size, 1) for size in dims[:axis]), item)
    return Typed("[]", kind, value.interval, (value,), items=items, builtin=TABLE["[]"])


def _new_axis(shown: Typed) -> int | None:
    """Where a new dimension stands that an index adds, `x[:, None]`; None of one that does something else."""
    new = [index for index, item in enumerate(shown.items) if isinstance(item, NewAxis)]
    others = [item for item in shown.items if not isinstance(item, NewAxis)]
    sizes = shown.args[0].type.sizes or ()
    whole = all(
        isinstance(item, Cut) and item.step == 1 and item.start == 0 and item.stop == size
        for item, size in zip(others, sizes, strict=False)
    )
    return new[0] if len(new) == 1 and whole else None


def _keeps_all(value: Typed, dtype: str) -> bool:
    """Whether another dtype has all values: whole numbers are as small as floating-point ones that show them."""
    own = value.type.dtype
    if own == "bool" or is_float(dtype):
        return own != "float64"
    return is_int(own) and is_int(dtype) and value.interval.within(full(dtype))


def _needed(body: Iterable[Statement], symbol: Symbol, stop: Mapping[Symbol, Typed]) -> tuple[Statement, ...]:
    """The statements that a symbol needs, but for those that define what is known."""
    needed, found = {symbol} - stop.keys(), list[Statement]()
    for statement in reversed(tuple(body)):
        if needed & set(targets(statement)):
            found.append(statement)
            needed |= set(reads(statement)) - stop.keys()
    return tuple(reversed(found))


def _free(body: Iterable[Statement], known_symbols: set[Symbol]) -> list[Symbol]:
    """What statements read that neither they define nor is known, each once."""
    defined, found = set(known_symbols), dict[Symbol, None]()
    for statement in body:
        found |= dict.fromkeys(one for one in reads(statement) if one not in defined)
        defined |= set(targets(statement))
    return list(found)


def _called(symbol: Symbol) -> str:
    """What a value is called in the language."""
    return symbol.name if symbol.key is None else dotted(symbol.key)
