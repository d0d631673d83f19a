"""Which outputs of a loss are computed together: those that need a common run of a network, draw or estimate."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from specgen.check.losses.forward import Alias, DrawnLogProb, NetworkBuffer, parts_of
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.names import part_name
from specgen.check.model import identifier
from specgen.expr import Symbol
from specgen.program.common import value_key
from specgen.program.names import numbered
from specgen.program.program import Output, Program, Region, Statement
from specgen.program.walk import expressions, reads, targets


def output_groups(loss: CheckedLoss, program: Program) -> tuple[tuple[str, tuple[Output, ...]], ...]:
    """The outputs of a loss in parts that share no costly value, in the order in which these are first computed.

    What needs none is computed with the first term, and so is what is only written and shares nothing with others.

    Args:
        loss: the loss.
        program: all that it computes.

    Returns:
        The name of each part, and its outputs; masks of the samples that count are in each part that reads them.
    """
    needed = _costly(loss, program)
    masks = {one.name: one for one in program.outputs if one.role == "value"}
    own = [one for one in program.outputs if one.role != "value"]
    common = needed[masks["mask"].symbol] if "mask" in masks else frozenset()
    groups: list[tuple[list[Output], frozenset[Hashable]]] = []
    for output in own:
        mask = masks.get(f"{identifier(output.name)}_mask")
        values = needed[output.symbol] | (needed[mask.symbol] if mask is not None else frozenset())
        if output.role != "write":
            values |= common
        joined = [one for one in groups if one[1] & values]
        groups = [one for one in groups if one not in joined]
        groups.append(
            (
                sorted([output, *(each for one, _ in joined for each in one)], key=own.index),
                values.union(*(one for _, one in joined)),
            )
        )
    first = next(number for number, (outputs, _) in enumerate(groups) if own[0] in outputs)
    with_first = [one for one in groups if one is groups[first] or _joins_first(*one)]
    apart = [one for one in groups if one not in with_first]
    together = sorted((each for one, _ in with_first for each in one), key=own.index)
    places = {name: place for place, name in enumerate(made.name for made in loss.forward)}
    made = [(together, frozenset[Hashable]().union(*(values for _, values in with_first))), *apart]
    made.sort(key=lambda one: min((places[name] for name in one[1] if name in places), default=-1))
    names: list[str] = []
    for outputs, _ in made:
        names.append(numbered(part_name(outputs[0].name), names))
    return tuple(
        (name, (*outputs, *_masks_of(outputs, masks))) for name, (outputs, _) in zip(names, made, strict=True)
    )


def _joins_first(outputs: Iterable[Output], needed: frozenset[Hashable]) -> bool:
    """Whether outputs are computed with the first term: nothing else would ask for them, or they cost nothing."""
    return not needed or all(output.role in ("write", "update") for output in outputs)


def _masks_of(outputs: Sequence[Output], masks: Mapping[str, Output]) -> list[Output]:
    """What says which samples count in these outputs."""
    wanted = {f"{identifier(output.name)}_mask" for output in outputs}
    if any(output.role != "write" for output in outputs):
        wanted.add("mask")
    return [mask for name, mask in masks.items() if name in wanted]


def _costly(loss: CheckedLoss, program: Program) -> Mapping[Symbol, frozenset[Hashable]]:
    """The runs, draws and estimates behind each value of a program: their names, and keys of expressions."""
    found: dict[Symbol, frozenset[Hashable]] = {}
    names: dict[str, frozenset[Hashable]] = {}
    for made in loss.forward:
        values: frozenset[Hashable] = (
            frozenset() if isinstance(made.value, NetworkBuffer) else frozenset({made.name})
        )
        for part in parts_of(made.value):
            if isinstance(part, Alias):
                values |= names[part.name]
            elif isinstance(part, DrawnLogProb):
                values |= names[part.draw]
        names[made.name] = found[made.symbol] = values
    _add(program.body, found)
    return {
        symbol: found.get(symbol, frozenset()) for symbol in (*found, *(o.symbol for o in program.outputs))
    }


def _add(body: Sequence[Statement], found: dict[Symbol, frozenset[Hashable]]) -> None:
    """Add what is behind the targets of statements."""
    for statement in body:
        if isinstance(statement, Region):
            _add(statement.body, found)
            found.update((outer, found[inner]) for outer, inner in statement.results)
            continue
        values = frozenset[Hashable]().union(*(found.get(symbol, frozenset()) for symbol in reads(statement)))
        for expr in expressions(statement):
            values |= {value_key(node) for node in expr.nodes if node.op == "value_estimate"}
        found.update((target, values) for target in targets(statement))
