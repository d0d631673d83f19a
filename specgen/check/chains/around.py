"""Transforms in a chain that step the environment before them: what chains can do, what is read, what bounds follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from specgen.check.chains.model import Instance, Row, role_entries
from specgen.check.chains.position import Position
from specgen.check.chains.scope import base_scope
from specgen.check.model import Entry
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import SpecType, Typed, infer
from specgen.expr.spec_types import Bound
from specgen.program.walk import known
from specgen.values import replace

_INSTEAD = "put its class and those behind it into a TransformedEnv"


def can_step(
    instance: Instance,
    position: Position,
    learning: str | None,
    span: Span,
    sink: Sink,
) -> bool:
    """Whether a chain over an environment can hold a transform; reported where it can't.

    Args:
        instance: the transform.
        position: the keys in front of it.
        learning: the name of a transform in front that learns.
        span: where the transform stands in the chain.
        sink: takes the mistake.
    """
    transform, env = instance.transform, position.env
    around = transform.around
    if around is None and not (instance.learns and position.standing):
        return True
    if env.chat is not None:
        message = (
            f"`{transform.name}` steps `{env.name}` several times, and a conversation takes an answer once"
        )
        sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help="leave it out"))
        return False
    why = None
    if around is None:
        why = f"learns from `{env.name}`, which keeps its state and of which `{position.standing}` leaves out steps"
    elif learning is not None:
        why = f"steps what `{learning}` learns from"
    elif around.kind == "reset_steps" and not env.keeps_state:
        why = f"steps `{env.name}`, which computes its steps, after a reset"
    elif around.kind == "reset_steps" and transform.phase("action"):
        why = "takes actions of its own after a reset"
    elif around.kind == "reset_steps" and position.masks:
        why = "takes random actions, of which a mask tells those that are allowed"
    elif around.kind == "reset_steps" and list(position.actions.values()) != list(env.action):
        why = "steps after a reset what takes other actions than the environment"
    if why is not None:
        sink.add(
            schema_rules.NOT_AVAILABLE.at(
                span, f"`{transform.name}` {why}, which chains can't do yet", help=_INSTEAD
            )
        )
    elif around is not None and around.kind == "skip" and env.keeps_state:
        position.standing = transform.name
    return why is None


def repetitions(instance: Instance) -> Typed:
    """How often a transform repeats the step in its chain: a number, or one of the chain's parameters."""
    around = instance.transform.around
    assert around is not None
    assert around.count is not None
    typed = infer(
        around.count.expr,
        base_scope(instance),
        around.count.source,
        Sink(),
        functions=instance.transform.functions,
    )
    assert typed is not None
    return known(int(typed.interval.low)) if typed.interval.fixed else typed


def folded_entries(instance: Instance) -> dict[str, Entry]:
    """The entries that a transform folds, with the bounds that they have then, by dotted key."""
    folded = [
        entry
        for row in instance.rows
        for role in instance.transform.folded
        for entry in role_entries(row, role)
    ]
    return {entry.dotted: entry for entry in folded}  # with the bounds of `folded_rows`


def collected_rows(instance: Instance, rows: Iterable[Row]) -> list[Row]:
    """The repetitions of a transform, whose collected outputs are the values of all steps, one behind the other."""
    names = {output.name for output in instance.transform.collected}
    if not names:
        return list(rows)
    count = int(repetitions(instance).interval.low)

    def stacked(entry: Entry) -> Entry:
        dims = (count, *entry.type.dims)
        spec = SpecType("binary" if entry.spec.dtype == "bool" else "unbounded", entry.spec.dtype, dims)
        return replace(entry, spec=spec, type=replace(entry.type, dims=dims))

    return [
        replace(
            row,
            outputs={
                name: stacked(entry) if name.partition(".")[0] in names else entry
                for name, entry in row.outputs.items()
            },
        )
        for row in rows
    ]


def folded_rows(instance: Instance, rows: Iterable[Row]) -> list[Row]:
    """The repetitions of a transform, whose folded entries have the bounds of all steps that are one."""
    folded = [role.name for role in instance.transform.folded]
    found = []
    for row in rows:
        inputs = {
            name: replace(entry, spec=_folded_spec(instance, name, entry.spec)) if name in folded else entry
            for name, entry in row.inputs.items()
        }
        found.append(replace(row, inputs=inputs))
    return found


def _folded_spec(instance: Instance, role: str, spec: SpecType) -> SpecType:
    """The bounds of 1 to n repetitions: of a sum the hull of all of them, of an extreme those of one."""
    around = instance.transform.around
    assert around is not None
    if role in around.extremes:
        return spec
    dims = spec.dims or ()
    if spec.kind != "bounded" or role not in around.sums or spec.low is None or spec.high is None:
        return SpecType("unbounded", spec.dtype, dims)
    count = repetitions(instance).interval.high
    if math.isinf(count):
        return SpecType("unbounded", spec.dtype, dims)
    return replace(spec, low=_ends(spec.low, int(count), min), high=_ends(spec.high, int(count), max))


def _ends(bound: Bound, count: int, choose: Callable[[float, float], float]) -> Bound:
    if isinstance(bound, tuple):
        return tuple(_ends(each, count, choose) for each in bound)
    return choose(bound, bound * count)
