"""What is known of the values of a chain in the making, and of the parts of `around` that are computed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from specgen.check.chains.model import Instance
from specgen.check.model import Entry
from specgen.check.programs.chain_state import ChainState, Moment
from specgen.check.programs.chain_transforms import bind_name, bind_parameters
from specgen.check.programs.env import NOT_DONE
from specgen.check.transforms.model import Phase
from specgen.expr import Symbol, Typed
from specgen.program.cut import cut
from specgen.program.fold import fold
from specgen.program.program import Input, Output, Program, Statement
from specgen.program.stored import tidy
from specgen.program.walk import read, reads, rewritten, targets
from specgen.values import replace


def rewards_after(state: ChainState, entries: Mapping[str, Entry]) -> dict[str, Symbol]:
    """The values of those of `entries` that are rewards, after the step."""
    after = state.views["next"]
    return {name: after[name] for name, entry in entries.items() if entry.role == "reward"}


def replace_after(state: ChainState, index: int, symbol: Symbol) -> None:
    """Let a cell have another value after the step, and with it its key, where that shows it."""
    one = state.cells[index]
    after, name = state.views["next"], one.entry.dotted
    if one.entry.role == "done" or after.get(name) == one.cell.next:
        after[name] = symbol
    state.cells[index] = replace(one, cell=replace(one.cell, next=symbol))


def observe_again(state: ChainState, place: str) -> None:
    """Compute what is observed after the step of the values that the cells have then."""
    known_after = {one.cell.now: read(state.after(one)) for one in state.cells}
    step = state.bodies["next"]
    step.statements += copied(state.bodies["now"].statements, known_after, place, "after")
    for name, symbol in state.views["now"].items():
        made = known_after.get(symbol)
        if name in state.views["next"] and made is not None and made.symbol is not None:
            state.views["next"][name] = made.symbol


def copied(
    statements: Sequence[Statement], values: dict[Symbol, Typed], place: str, suffix: str
) -> list[Statement]:
    """Statements once more, of other values; `values` gets what they define."""

    def renamed(symbol: Symbol) -> Symbol:
        made = replace(symbol, path=f"{symbol.path}~{place}.{suffix}")
        values[symbol] = read(made)
        return made

    return [rewritten(statement, values, renamed) for statement in statements]


def copy_of(symbol: Symbol) -> Typed:
    """A tensor like another, with memory of its own: nobody who changes one in place changes both."""
    return Typed("copy", symbol.type, symbol.interval, (read(symbol),))


def as_printed(
    state: ChainState,
    name: str,
    body: Iterable[Statement],
    outputs: Iterable[Output],
) -> Program:
    """Statements of a region as they are printed: a program of what they read, and of nothing that no output needs.

    Args:
        state: the chain, which knows what is fixed.
        name: of the program.
        body: the statements.
        outputs: what is read of them.
    """
    body, outputs = tuple(body), tuple(outputs)
    found = dict.fromkeys(symbol for statement in body for symbol in reads(statement))
    found |= dict.fromkeys(output.symbol for output in outputs)
    fixed = [one for one in state.fixed if one.symbol in found]
    made = {target for statement in body for target in targets(statement)}
    others = found.keys() - made - {one.symbol for one in fixed}
    inputs = [Input(one, "param" if one.type.python else "data") for one in found if one in others]
    inputs = [NOT_DONE if one.symbol == NOT_DONE.symbol else one for one in inputs]
    return tidy(fold(cut(Program(name, (*fixed, *inputs), body, outputs), outputs)))


def around_part(
    state: ChainState,
    instance: Instance,
    phase: Phase,
    index: int,
    after: Mapping[str, Symbol] = {},
    given: Mapping[str, Symbol] = {},
    moment: Moment = "now",
) -> tuple[list[Statement], dict[str, Typed]]:
    """A part of `around` in one row of its transform: its statements, and the values of its targets.

    Args:
        state: the chain; names stand for its values before the step.
        instance: the transform.
        phase: which part.
        index: the number of the row.
        after: what `next.` names stand for, by key.
        given: what other names stand for.
        moment: when names without `next.` are read.
    """
    row = instance.rows[index]
    local = state.body(
        f"transforms[{instance.position}].{phase}{index}", "next" if moment == "now" else moment
    )
    bind_parameters(state, local, instance)
    for name, entry in row.inputs.items():
        bind_name(local, row, phase, name, state.views[moment].get(entry.dotted))
        bind_name(local, row, phase, f"next.{name}", after.get(entry.dotted))
    for name, symbol in given.items():
        bind_name(local, row, phase, name, symbol)
    values: dict[str, Typed] = {}
    for statement in instance.statements(phase, row):
        if statement.target in row.inputs or statement.target in row.outputs or statement.target == phase:
            values[statement.target] = local.typed(statement)
        else:
            local.assign(statement, origin=instance.path)
    return local.statements, values
