"""States of a policy in a chain: they pass by the transforms behind the one that resets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specgen.check.chains.model import Instance, Row
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import transform_language as rules


def check_policy_states(
    instance: Instance,
    rows: Sequence[Row],
    dropped: Collection[str],
    states: dict[str, str],
    span: Span,
    sink: Sink,
) -> None:
    """Report a transform that writes or drops a state of the policy.

    Args:
        instance: the transform in its chain.
        rows: its repetitions.
        dropped: its roles whose keys go.
        states: the states so far, with the transforms that reset them; takes those of this one.
        span: where it stands.
        sink: takes the mistakes.
    """
    transform = instance.transform
    for row in rows:
        written = {entry.dotted for entry in row.outputs.values()}
        for name, entry in row.inputs.items():
            does = "drops" if name.partition(".")[0] in dropped else "writes"
            if entry.dotted not in states or (does == "writes" and entry.dotted not in written):
                continue
            message = f"`{transform.name}` {does} `{entry.dotted}`, a state of the policy in `{states[entry.dotted]}`"
            sink.add(rules.POLICY_STATE.at(span, message, help="give it other keys in `in_keys`"))
    own = {output.name for output in transform.outputs if output.policy}
    for row in rows:
        states |= {row.outputs[name].dotted: transform.name for name in own if name in row.outputs}
