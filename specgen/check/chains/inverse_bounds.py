"""Warns of inverses in a chain that give the environment actions beyond its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specgen.check.chains.model import Instance, Row
from specgen.check.elements import Elements
from specgen.check.model import Entry
from specgen.check.outer_specs import Way, ends_of, followed_elements
from specgen.check.transforms.per_env import rows_of_their_own
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import env_lints as rules

_WHOLE_RANGE = ("bounded", "categorical")
"""The kinds of specs whose ends are values themselves, in every element at once."""


def tensor_values(instance: Instance, row: Row) -> dict[str, Any]:
    """The values of what is a tensor in an inverse and no entry: parameters and bounds, by the paths of their symbols."""
    params = instance.params
    found = {
        f"{instance.path}.params.{param.name}": params[param.name]
        for param in instance.transform.params
        if param.kind == "tensor" and isinstance(params[param.name], float | int | list)
    }
    return found | {path: table.value for path, table in row.tables.items()}


def warn_beyond_bounds(instance: Instance, span: Callable[..., Span], sink: Sink) -> None:
    """Warn where an end of what the policy may write makes an action that the environment does not take.

    Only what is computed of one output is looked at, and only its ends: what is warned of does happen. `span` is where
    the transform stands, without an argument.
    """
    per_env = rows_of_their_own(instance.transform.params)
    if instance.transform.python is None and not any(
        per_env & one.reads for one in instance.transform.inverse
    ):
        for row in instance.inverse_rows:
            _warn_of(instance, row, span, sink)


def _warn_of(instance: Instance, row: Row, span: Callable[..., Span], sink: Sink) -> None:
    constants = tensor_values(instance, row)
    statements = row.bound["inverse"]
    for index, statement in enumerate(statements):
        taken = row.inputs.get(statement.target)
        before = tuple(statements[:index])
        read = {name for one in (*before, statement) for name in one.reads if name in row.outputs}
        if taken is None or len(read) != 1:
            continue
        written = row.outputs[read.pop()]
        way = Way(statement, before, inwards=True)
        for wrote, made, low, high in _beyond(way, written, taken, constants):
            bounds = f"[{_number(low)}, {_number(high)}]"
            sink.add(
                rules.ACTION_BEYOND_BOUNDS.at(
                    span(),
                    f"`{instance.transform.name}` makes {_number(made)} of {_number(wrote)}, which the policy may write, "
                    f"and `{taken.dotted}` is in {bounds}",
                    help=f"scale it between `low({statement.target})` and `high({statement.target})`, or `clip` it there",
                )
            )
            break


def _beyond(
    way: Way, written: Entry, taken: Entry, constants: Mapping[str, Any]
) -> Iterator[tuple[float, float, float, float]]:
    """What the policy writes, what is made of it, and the bounds that it is beyond: the first of each end."""
    if written.spec.kind not in _WHOLE_RANGE or taken.spec.kind not in _WHOLE_RANGE:
        return
    low, high = ends_of(taken.spec)
    shape = written.type.shape
    for end in ends_of(written.spec):
        if any(map(math.isinf, end)):
            continue
        made = followed_elements(way, Elements(shape, end), constants)
        if made is None or len(made.numbers) != len(low):
            continue
        for place, (value, least, most) in enumerate(zip(made.numbers, low, high, strict=True)):
            room = 1e-5 * max(1.0, *(abs(bound) for bound in (least, most) if not math.isinf(bound)))
            if not least - room <= value <= most + room:
                yield end[place if len(end) == len(low) else 0], value, least, most
                break


def _number(value: float) -> str:
    return f"{value:g}"
