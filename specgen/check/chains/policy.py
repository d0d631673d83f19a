"""States of a policy in a chain: they pass by the transforms behind the one that resets them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specgen.check.chains.model import Instance, Row
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_language as rules
from specgen.expr.tree import names_read_or_called

_INSTEAD = "put its class and those behind it into a TransformedEnv"


def check_policy_states(
    instance: Instance,
    rows: Sequence[Row],
    dropped: Collection[str],
    states: dict[str, str],
    span: Span,
    sink: Sink,
) -> None:
    """Report a transform that writes or drops a state of the policy, or reads what it is after a step.

    Args:
        instance: the transform in its chain.
        rows: its repetitions.
        dropped: its roles whose keys go.
        states: the states so far, with the transforms that reset them; takes those of this one.
        span: where it stands.
        sink: takes the mistakes.
    """
    transform = instance.transform
    own = {output.name for output in transform.outputs if output.policy}
    for statement in (*transform.step, *transform.map):
        for read in names_read_or_called(statement.expr):
            if read.path in own:
                message = f"`{transform.name}` reads `{read.path}`, which the policy writes; chains can't do that yet"
                sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=_INSTEAD))
                return
    for row in rows:
        written = {entry.dotted for entry in row.outputs.values()}
        for name, entry in row.inputs.items():
            if entry.dotted not in states:
                continue
            goes = name.partition(".")[0] in dropped
            does = "drops" if goes else "writes" if entry.dotted in written else "reads"
            message = f"`{transform.name}` {does} `{entry.dotted}`, a state of the policy in `{states[entry.dotted]}`"
            if does == "reads":
                message += "; chains can't do that yet"
            rule = schema_rules.NOT_AVAILABLE if does == "reads" else rules.POLICY_STATE
            help = _INSTEAD if does == "reads" else "give it other keys in `in_keys`"
            sink.add(rule.at(span, message, help=help))
    for row in rows:
        states |= {row.outputs[name].dotted: transform.name for name in own if name in row.outputs}
