"""A transform by itself: one program for each phase and option, typed for whatever keys it will be bound to."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.conditions import ALWAYS, Condition
from specgen.check.model import entry_name, identifier, snake
from specgen.check.programs.body import Body
from specgen.check.transforms.entries import Output as TransformOutput
from specgen.check.transforms.inverse import fact_symbols
from specgen.check.transforms.model import CheckedTransform, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import output_type, rank_symbol, role_types
from specgen.expr import Symbol, Type, full
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.symbols import Time
from specgen.program.cut import cut
from specgen.program.program import Input, Output, Program
from specgen.program.walk import read, store
from specgen.values import dataclass, replace

_Group = tuple[Condition | None, str, tuple[str, ...]]
"""What the outputs of one function share: when they exist, their name if each is alone, the entries they are made of."""


@dataclass(frozen=True)
class PhaseProgram:
    """A program of a phase.

    Attributes:
        program: What it computes; the keys of its inputs and outputs are the names of the transform.
        writes: The targets that it returns, in order, as the language writes them.
        when: What must hold of the parameters; None for what always exists.
    """

    program: Program
    writes: tuple[str, ...]
    when: Condition | None = None


def phase_programs(transform: CheckedTransform, phase: Phase) -> list[PhaseProgram]:
    """The programs of a phase: what always exists first, then one for each condition on parameters."""
    path = f"transforms.{transform.name}.{phase}"
    new = new_rows(path)
    body = Body(path, new_rows=new)
    inputs = phase_inputs(transform, phase)
    data = {entry_name(one.symbol): one.symbol for one in inputs if one.kind == "data"}
    made: dict[str, Symbol] = {}
    written: list[tuple[str, TransformOutput | None]] = []
    for statement in transform.phase(phase):
        target = statement.target
        output = output_of(transform, target)
        if output is None and not (
            phase == "inverse" and target in {role.name for role in transform.backward}
        ):
            body.assign(statement)
            continue
        value = body.typed(statement)
        like = None if value.type.level == "batch" else data[_shaped_as(phase, target, output)]
        type_ = data[target].type
        symbol = body.symbol(
            target,
            type_,
            full(type_.dtype),
            key=(target.removeprefix("next."),),
            time="next" if phase == "step" else "now",
        )
        made[target] = body.add(symbol, store(value, type_, like), statement.path)
        body.name(statement, read(symbol))
        written.append((target, output))
    whole = Program(
        f"{snake(transform.name)}_{phase}",
        (*inputs, Input(new, "data"), *body.draws),
        tuple(body.statements),
        (),
    )
    groups: dict[_Group, list[str]] = {}
    for target, output in written:
        alone = target if phase == "outer" else ""
        # At a reset there are no rewards: a map then makes what it makes of other entries alone.
        entries = _entries_read(whole, Output(identifier(target), made[target])) if phase == "map" else ()
        groups.setdefault((None if output is None else output.when, alone, entries), []).append(target)
    return _split(whole, groups, made)


def conditional_programs(
    whole: Program, made: Mapping[str, Symbol], whens: Mapping[str, Condition | None]
) -> list[PhaseProgram]:
    """The programs of a part: what always exists first, then one for each condition on parameters and keys.

    None of them is given what another one computes.

    Args:
        whole: the statements of all, named as one of them alone is.
        made: the symbol of each target, in the order written.
        whens: what must hold for each target to exist.
    """
    groups: dict[Condition | None, list[str]] = {}
    for target in made:
        groups.setdefault(whens[target], []).append(target)
    found: dict[_Group, list[str]] = {(when, "", ()): targets for when, targets in groups.items()}
    return _split(whole, found, made, apart=True)


def _split(
    whole: Program, groups: Mapping[_Group, list[str]], made: Mapping[str, Symbol], *, apart: bool = False
) -> list[PhaseProgram]:
    """A program for each group of targets; `apart`: each computes all that it needs."""
    always = sum(when is None for when, _, _ in groups)
    programs = []
    # What asks for more may read what asks for less.
    for group in sorted(groups, key=_asks_for):
        when, alone, _ = group
        targets = groups[group]
        named = when is not None or alone or always > 1
        suffix = "_" + "_".join(target.removeprefix("next.") for target in targets) if named else ""
        outputs = tuple(Output(identifier(target), made[target]) for target in targets)
        part = replace(whole, name=f"{whole.name}{suffix}", outputs=outputs)
        # What another function of this phase computes comes in as an argument.
        others = [] if apart else [symbol for target, symbol in made.items() if target not in targets]
        programs.append(
            PhaseProgram(_in_order(cut(part, outputs, others), whole.inputs), tuple(targets), when)
        )
    return programs


def _entries_read(whole: Program, output: Output) -> tuple[str, ...]:
    """The entries that an output is made of, directly or by what else is computed of them."""
    return tuple(one.symbol.name for one in cut(whole, (output,), ()).inputs if one.kind == "data")


def _asks_for(group: _Group) -> tuple[int, str, int]:
    when, _, entries = group
    return len((when or ALWAYS).atoms), str(when or ""), len(entries)


def new_rows(path: str) -> Symbol:
    """What tells a phase which rows are new."""
    return Symbol(f"{path}.in.{NEW_ROWS}", NEW_ROWS, Type("bool", ()), full("bool"), key=(NEW_ROWS,))


def output_of(transform: CheckedTransform, target: str) -> TransformOutput | None:
    """The output that a target of a phase is; None for a local value, or a role of an inverse."""
    name = target.removeprefix("next.")
    return next((output for output in transform.outputs if output.name == name), None)


def phase_inputs(transform: CheckedTransform, phase: Phase) -> tuple[Input, ...]:
    """Parameters and networks, then values before the step, then values after it; each in the order declared."""
    path = f"transforms.{transform.name}.{phase}.in"
    found = [Input(transform.symbols[f"params.{param.name}"], "param") for param in transform.params]
    found += [Input(transform.symbols[f"buffers.{buffer.name}"], "buffer") for buffer in transform.buffers]
    found += [Input(transform.symbols[f"networks.{one.name}"], "network") for one in transform.networks]
    found += [Input(rank_symbol(role), "param") for role in transform.roles]
    found += [Input(transform.symbols[f"sizes.{name}"], "param") for name in transform.sizes]
    types = role_types(transform.roles)
    types |= {output.name: output_type(output, types) for output in transform.outputs}
    facts = fact_symbols(f"transforms.{transform.name}.{phase}", transform.roles, transform.outputs, types)
    found += [Input(symbol, "param") for _, symbol in facts]
    if phase == "inverse" and f"inverse.in.{NTH}" in transform.symbols:
        found.append(Input(transform.symbols[f"inverse.in.{NTH}"], "param"))
    times: tuple[tuple[Time, str], ...] = (("now", ""), ("next", "next."))
    for time, prefix in times:
        for name, type_ in types.items():
            full_name = f"{prefix}{name}"
            values = full(type_.dtype)
            symbol = Symbol(f"{path}.{full_name}", identifier(full_name), type_, values, time, (name,))
            found.append(Input(symbol, "data"))
    return tuple(found)


def _shaped_as(phase: Phase, target: str, output: TransformOutput | None) -> str:
    """The name of a tensor that has the shape of an output whose expression reads none."""
    if output is None:
        return target
    if phase == "reset":
        return output.name
    followed = output.each or output.like
    assert followed is not None, "an output of no role says its type, and its step reads something"
    return f"next.{followed}" if phase == "step" else followed


def _in_order(program: Program, inputs: tuple[Input, ...]) -> Program:
    """The program with what another one computed among its inputs, in the order of the declaration."""
    names = [one.symbol.name for one in inputs]
    return replace(
        program, inputs=tuple(sorted(program.inputs, key=lambda one: names.index(one.symbol.name)))
    )
