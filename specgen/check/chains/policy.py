"""What a policy writes in a chain: its states pass by later transforms, and so do actions that a step reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specgen.check.chains.model import Instance, Row
from specgen.check.transforms.model import CheckedTransform
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import transforms_policy as rules


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


def check_actions_read(
    transform: CheckedTransform,
    rows: Sequence[Row],
    inverse_rows: Sequence[Row],
    acted: dict[str, str],
    span: Span,
    sink: Sink,
) -> None:
    """Report a transform that changes an action which it, or one in front of it, reads as the policy wrote it.

    Args:
        transform: the transform.
        rows: its repetitions.
        inverse_rows: those of its inverse.
        acted: the actions that are read so far, with the transforms that do; takes those of this one.
        span: where it stands.
        sink: takes the mistakes.
    """
    names = [role.name for role in transform.forward if role.acted]
    acted |= {row.inputs[name].dotted: transform.name for row in rows for name in names}
    for action in dict.fromkeys(entry.dotted for row in inverse_rows for entry in row.inputs.values()):
        if (reader := acted.get(action)) is not None:
            message = f"`{transform.name}` changes `{action}`, which `{reader}` reads as the policy wrote it"
            sink.add(rules.ACTION_CHANGED.at(span, message, help=f"put `{reader}` behind it"))
