"""Transforms of a chain that a class is behind: what it is given at a reset, where there are no rewards."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.chains.model import Instance, Row
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import flow as rules


def check_rewards_read(instance: Instance, rows: Iterable[Row], span: Span, sink: Sink) -> None:
    """Report a class that reads a reward where there is none: at a reset, or of which it makes what a reset returns.

    Args:
        instance: the transform.
        rows: its repetitions.
        span: where it stands in the chain.
        sink: takes the mistake.
    """
    python = instance.transform.python
    if python is None:
        return
    for row in rows:
        reward = next((entry for entry in row.inputs.values() if entry.role == "reward"), None)
        made = next((entry for entry in row.outputs.values() if entry.role not in ("reward", "action")), None)
        if reward is None:
            continue
        name, source = instance.transform.name, python.source.name
        if "reset" in python.phases:
            message = (
                f"`{name}` can't be applied to the reward `{reward.dotted}`: `{source}.reset` would read it"
            )
            help = "let a transform behind this one make of the reward what follows from it"
            sink.add(rules.NO_REWARD_YET.at(span, message, help=help))
            return
        if "map" in python.phases and made is not None:
            message = (
                f"`{name}` makes the observation `{made.dotted}` of the reward `{reward.dotted}`, "
                "which no reset returns"
            )
            help = "declare two transforms: one that reads the reward and makes rewards, and one of all else"
            sink.add(rules.NO_REWARD_YET.at(span, message, help=help))
            return
