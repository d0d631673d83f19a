"""Transforms in a chain: each is bound to the keys that it meets at its position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from specgen.check.chains.model import Instance, Row
from specgen.check.chains.scope import interval_of, shape_of
from specgen.check.model import Constant, Entry, Parameter, dotted, identifier
from specgen.check.programs.body import Body
from specgen.check.programs.chain_learned import (
    bind_statistics,
    new_rows,
    read_statistics,
    update_at_reset,
    update_statistics,
)
from specgen.check.programs.chain_python import call_class, call_inverse, given_by_class
from specgen.check.programs.chain_state import MOMENTS, ChainCell, ChainState, PhaseRun
from specgen.check.programs.env import either
from specgen.check.transforms.model import Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.networks import network_symbol
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.symbols import Key
from specgen.program.program import Call, Cell, Input
from specgen.program.walk import known, read, store


def apply_transform(state: ChainState, instance: Instance) -> None:
    """Bind a transform to its keys: its statements, with the values that its position sees."""
    before = {moment: dict(view) for moment, view in state.views.items()}
    raised: list[Entry] = []
    carried: list[tuple[str, Entry, Symbol]] = []
    update_at_reset(state, instance)
    for index, row in enumerate(instance.rows):
        place = f"transforms[{instance.position}].{index}"
        first = {s.target for s in instance.statements("reset", row)} | {
            *given_by_class(instance, row, "reset")
        }
        for output in instance.transform.outputs:
            entry = row.outputs.get(output.name)
            if entry is not None and output.name in first:
                carried.append((output.name, entry, _cell_symbol(state, place, output.name, entry)))
        cells = {name: symbol for name, entry, symbol in carried if row.outputs.get(name) is entry}
        _run(PhaseRun(state, instance, row, "reset", "reset", place, before))
        read_statistics(state, instance, row, "next", "step")
        state.views["now"].update((row.outputs[name].dotted, symbol) for name, symbol in cells.items())
        _take_policy_states(state, instance, row)
        raised += _run(PhaseRun(state, instance, row, "step", "next", place, before, cells))
    for moment in MOMENTS:
        update_statistics(state, instance, moment)
    shown = {}
    for index, row in enumerate(instance.rows):
        place = f"transforms[{instance.position}].{index}"
        once = _is_recorded(state, instance, row, before["now"])
        for moment in MOMENTS:
            if moment != "now" or not once:
                _run(PhaseRun(state, instance, row, "map", moment, place, before))
        for name in instance.transform.mapped if once else ():
            entry = row.outputs.get(name)
            if entry is not None and entry.role != "reward":
                symbol = _cell_symbol(state, place, name, entry)
                carried.append((name, entry, symbol))
                shown[entry.dotted] = symbol
    state.views["now"] |= shown
    state.recorded |= set(shown.values())
    if instance.derives_done:
        for flag in raised:
            _raise(state, flag)
    for name, entry, symbol in carried:
        views = (state.views[moment][entry.dotted] for moment in ("reset", "next"))
        cell = Cell(entry.name, symbol, next(views), next(views), entry.key)
        output = instance.transform.output(name)
        made = ChainCell(cell, entry, instance.position, output.carry, output.hidden)
        state.cells.append(made)
    for row in instance.rows:
        for entry in row.outputs.values():
            if entry.role == "reward":
                state.views["reset"].pop(entry.dotted, None)  # what had this key before is no reward
    for key in instance.dropped:
        for view in state.views.values():
            view.pop(key, None)


def _take_policy_states(state: ChainState, instance: Instance, row: Row) -> None:
    """Let a step return the states of the policy as this left them."""
    body = state.bodies["next"]
    for name, entry in row.outputs.items():
        if instance.transform.output(name).policy:
            values, wish = entry.spec.interval, f"next_{entry.name}"
            left = Symbol(f"{state.path}.written.{entry.dotted}", wish, entry.type, values, "next", entry.key)
            state.written[entry.dotted] = left
            symbol = body.symbol(
                f"kept.{entry.dotted}", entry.type, values, wish=wish, key=entry.key, time="next"
            )
            state.views["next"][entry.dotted] = body.add(
                symbol, store(read(left), entry.type), f"{state.path}.transforms[{instance.position}]"
            )


def _cell_symbol(state: ChainState, place: str, name: str, entry: Entry) -> Symbol:
    """What an output was before the step."""
    path = f"{state.path}.cells.{place}.{name}"
    return Symbol(path, entry.name, entry.type, entry.spec.interval, "now", entry.key)


def _is_recorded(state: ChainState, instance: Instance, row: Row, now: Mapping[str, Symbol]) -> bool:
    """Whether a map can't be computed again of the state: it reads statistics, or what was computed of them."""
    read = {now.get(entry.dotted) for entry in row.inputs.values()}
    return instance.learns or not state.recorded.isdisjoint(read)


def environment_actions(state: ChainState, body: Body) -> dict[str, Symbol]:
    """Add the environment's actions from what the policy wrote, last transform first."""
    current = dict(state.actions)
    for instance in reversed(state.chain.instances):
        taken, before = dict(current), len(body.statements)
        for index, row in enumerate(instance.inverse_rows):
            if instance.transform.python is not None:
                place = f"transforms[{instance.position}].{index}.inverse"
                given = call_inverse(state, body, instance, row, place, taken)
                current |= {entry.dotted: given[role] for role, entry in row.inputs.items()}
                continue
            current |= _acted(state, body, instance, index, "inverse", taken)
        if any(isinstance(one, Call) and one.callee.draw is not None for one in body.statements[before:]):
            state.acting[instance.position] = before  # a repetition draws again
        around = instance.transform.around
        if around is not None and around.kind == "repeat" and instance.transform.phase("action"):
            state.acting[instance.position] = len(body.statements)
            for index in range(len(instance.inverse_rows)):
                current |= _acted(state, body, instance, index, "action", taken)
    return current


def _acted(
    state: ChainState,
    body: Body,
    instance: Instance,
    index: int,
    phase: Literal["inverse", "action"],
    taken: Mapping[str, Symbol],
) -> dict[str, Symbol]:
    """Add what a phase makes of what the policy wrote, `taken`; the environment's actions, by dotted name."""
    row, origin = instance.inverse_rows[index], f"{state.path}.transforms[{instance.position}]"
    path = f"{body.path}.transforms[{instance.position}].{index}.{phase}"
    local = Body(path, numbers=body.numbers)
    bind_parameters(state, local, instance)
    _bind_tables(state, local, row)
    for name, written in row.outputs.items():
        bind_name(local, row, phase, name, taken[written.dotted])
    bind_name(local, row, phase, NTH, nth_symbol(origin))
    first = next(iter(row.inputs.values()))
    statements = instance.statements(phase, row)
    for statement in statements:
        entry = row.inputs.get(statement.target)
        local.assign(
            statement,
            None if entry is None else entry.type,
            origin=origin,
            wish=f"{(entry or first).name}_{identifier(statement.target)}",
        )
    body.statements += local.statements
    body.draws += local.draws
    made = {statement.target for statement in statements}
    return {entry.dotted: local.bound(role) for role, entry in row.inputs.items() if role in made}


def nth_symbol(origin: str) -> Symbol:
    """The number of a repetition of the transform that is declared at `origin`."""
    return Symbol(f"{origin}.{NTH}", NTH, Type("int64", (), "ctor"), full("int64"))


def tables(instances: Iterable[Instance]) -> Iterator[Constant]:
    """The parameters of transforms that are tensors, as constant tables of the chain."""
    for instance in instances:
        for param in instance.transform.params:
            value = instance.params[param.name]
            if param.kind == "tensor" and value is not None and not isinstance(value, Parameter):
                type_ = Type("float32", shape_of(value), "const")
                doc = f"`{param.name}` of {instance.transform.name}"
                yield Constant(_constant(instance, param.name), type_, value, doc)
        for row in instance.inverse_rows:
            read = {path for one in row.bound["inverse"] for path in _paths_read(one.typed)}
            yield from (table for path, table in row.tables.items() if path in read)


def _run(run: PhaseRun) -> list[Entry]:
    """Add the statements of a phase at a moment.

    Returns:
        The done flags that it assigns.
    """
    state, instance, row, moment = run.state, run.instance, run.row, run.moment
    phase, before, cells, origin = run.phase, run.before, run.cells, run.origin
    if instance.transform.python is not None:
        return call_class(run)
    body, local = state.bodies[moment], run.local_body()
    bind_parameters(state, local, instance)
    bind_statistics(state, local, instance, row, moment)
    if phase == "reset":
        new_rows(state, instance, row, local)
    for buffer, param in instance.given.items():
        symbol = row.symbols.get(f"buffers.{buffer}")
        if symbol is not None:
            local.bind(symbol, _parameter(state, instance, param))
    mapped = instance.transform.mapped
    for name in (*row.inputs, *row.outputs):
        entry = row.outputs.get(name) or row.inputs[name]
        seen = (row.inputs.get(name) or entry).dotted
        if phase == "step":
            acted = name in row.inputs and instance.transform.role(name.partition(".")[0]).acted
            now = state.actions.get(seen) if acted else before["now"].get(seen)
            bind_name(local, row, phase, name, cells.get(name) or now)
            # A flag is as it is so far: another key of the same transform may have raised it.
            after = (state.views if entry.role == "done" else before)["next"].get(seen)
            if name in row.outputs and instance.transform.output(name).policy:
                after = state.views["next"][seen]
            raised = known(False) if after is None and entry.role == "done" else after
            if isinstance(raised, Symbol) and name not in row.outputs and entry.role == "done":
                raised = _of_each_element(local, name, raised, entry.type, origin)
            bind_name(local, row, phase, f"next.{name}", raised)
        elif name in row.inputs:
            bind_name(local, row, phase, name, before[moment].get(seen))
        elif phase == "map" and name not in mapped:
            bind_name(local, row, phase, name, state.views[moment].get(seen))
    # A reset gives no reward: what a map makes of one is not there, either.
    lacking = {
        name.partition(".")[0]
        for name, entry in row.inputs.items()
        if phase == "map" and before[moment].get(entry.dotted) is None
    }
    flags = []
    for statement in instance.statements(phase, row):
        bare = statement.target.removeprefix("next.")
        if statement.reads & lacking:
            lacking.add(bare)
            continue
        made = row.outputs.get(bare)
        if made is None:
            local.assign(statement, origin=origin)
            continue
        if made.role == "reward" and moment != "next":
            local.typed(statement)  # nobody gets it, but what it draws is drawn
            continue
        wish = made.name if moment != "next" or made.role == "reward" else f"next_{made.name}"
        symbol = local.assign(
            statement,
            made.type,
            made.spec.interval,
            origin=origin,
            wish=wish,
            alias=f"{wish}_{bare}",
            key=made.key,
            time="next" if moment == "next" else "now",
        ).symbol
        assert symbol is not None
        state.views[moment][made.dotted] = symbol
        if moment == "next" and made.role == "done":
            flags.append(made)
    body.statements += local.statements
    body.draws += local.draws
    return flags


def _of_each_element(body: Body, name: str, flag: Symbol, type: Type, origin: str) -> Symbol:
    """A done flag for each element of what stands below its done set, which may have more dimensions."""
    if flag.type == type:
        return flag
    value = read(flag)
    for axis, size in enumerate(type.shape[len(flag.type.dims) :], len(flag.type.dims)):
        for op, options, last in (("unsqueeze", {}, 1), ("tile", {"count": known(size)}, size)):
            made = Type("bool", (*type.shape[:axis], last))
            value = Typed(op, made, full("bool"), (value,), {"axis": axis, **options}, builtin=TABLE[op])
    return body.add(body.symbol(name, type, full("bool"), time="next"), store(value, type), origin)


def bind_name(body: Body, row: Row, phase: Phase, name: str, value: Symbol | Typed | None) -> None:
    """Let a name of a transform stand for a value of its position."""
    symbol = row.symbols.get(f"{phase}.in.{name}")
    if symbol is not None and value is not None:
        body.bind(symbol, _as_stored(value) if value.type.col and not symbol.type.col else value)


def _as_stored(value: Symbol | Typed) -> Typed:
    """A column with its trailing 1 as a dimension."""
    tree = read(value) if isinstance(value, Symbol) else value
    type_ = Type(tree.type.dtype, (*tree.type.shape, 1))
    axis = len(tree.type.shape)
    return Typed("unsqueeze", type_, full(type_.dtype), (tree,), {"axis": axis}, builtin=TABLE["unsqueeze"])


def bind_parameters(state: ChainState, body: Body, instance: Instance) -> None:
    """Let the tensors among a transform's parameters stand for constants of the chain, and its networks for the chain's."""
    for own, keyword in instance.networks.items():
        network = network_symbol(state.path, keyword)
        state.networks.setdefault(keyword, Input(network, "network", "networks"))
        body.bind(network_symbol(instance.path, own), network)
    for param in instance.transform.params:
        value = instance.params[param.name]
        if param.kind != "tensor" or value is None or isinstance(value, Parameter):
            continue
        symbol = _parameter(state, instance, param.name)
        body.bind(Symbol(f"{instance.path}.params.{param.name}", symbol.name, symbol.type), symbol)


def _parameter(state: ChainState, instance: Instance, param: str) -> Symbol:
    """A parameter that is a tensor, as a constant of the chain."""
    name, value = _constant(instance, param), instance.params[param]
    symbol = Symbol(
        f"{state.path}.consts.{name}", name, Type("float32", shape_of(value), "const"), interval_of(value)
    )
    state.constants.setdefault(name, Input(symbol, "const", "consts"))
    return symbol


def _bind_tables(state: ChainState, body: Body, row: Row) -> None:
    """Let the bounds that an inverse reads stand for constants of the chain."""
    for binding in row.facts.values():
        symbol = binding.symbol
        if symbol is None or symbol.path not in row.tables:
            continue
        table = row.tables[symbol.path]
        made = Symbol(f"{state.path}.consts.{table.name}", table.name, table.type, symbol.interval)
        state.constants.setdefault(table.name, Input(made, "const", "consts"))
        body.bind(symbol, made)


def _paths_read(node: Typed) -> Iterator[str]:
    return (one.symbol.path for one in node.nodes if one.op == "name" and one.symbol is not None)


def _raise(state: ChainState, flag: Entry) -> None:
    """Raise what a raised flag raises: `done` beside it, and the flags of groups below with theirs."""
    body, view = state.bodies["next"], state.views["next"]
    raised = view[flag.dotted]
    for name in _raised(state, flag.key[:-1], flag.key[-1]):
        entry = state.chain.entries[name]
        symbol = body.symbol(
            f"raised.{name}",
            entry.type,
            full("bool"),
            wish=f"next_{entry.name}",
            key=entry.key,
            time="next",
        )
        current = view.get(name)
        value: Typed = read(raised) if current is None else either(current, raised, entry.type)
        view[name] = body.add(symbol, store(value, entry.type) if current is None else value)


def _raised(state: ChainState, level: Key, flag: str) -> Iterator[str]:
    yield dotted((*level, "done"))
    for deeper in state.chain.env.value.done:
        if len(deeper) > len(level) and deeper[: len(level)] == level:
            if (name := dotted((*deeper, flag))) in state.chain.entries:
                yield name
            yield dotted((*deeper, "done"))


def _constant(instance: Instance, param: str) -> str:
    """The field of the chain's constants that holds a parameter."""
    return f"{instance.field}_{param}"
