"""Keys that declarations of language models name."""

from __future__ import annotations

from specgen.check.names import key_refusal, refused
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr.symbols import Key
from specgen.source import Node, Scalar


def read_key(node: Node, field: str, sink: Sink) -> Key:
    """The key that a field names; empty for a wrong one, and the sink is told what is wrong.

    Args:
        node: what is written.
        field: the field, for messages.
        sink: takes the mistakes.
    """
    if not isinstance(node, Scalar):
        message = f"`{field}` should be a key: a name, or names joined by dots"
        sink.add(rules.WRONG_TYPE.at(node.span, message))
        return ()
    parts = tuple(node.text.split("."))
    for part in parts:
        reason = key_refusal(part, foreign=True) if part else "a part of it is empty"
        if reason is not None:
            sink.add(refused(part or node.text, reason, "key", node.span))
            return ()
    return parts
