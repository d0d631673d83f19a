"""Arguments of transforms that run language models: which tokens count, and where the models run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from specgen.check.language_models.transforms import ModelTransform, Texts
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import describe, to_data
from specgen.source import Node, Sequence


def read_texts(texts: Texts, node: Node, owner: str, sink: Sink) -> Any:
    """The text that is given for an argument, or the tuple of them; None for a wrong one, and the sink is told.

    Args:
        texts: the argument.
        node: what is written.
        owner: the transform, for messages.
        sink: takes the mistakes.
    """
    what = f"`{texts.name}` of `{owner}`"
    if not texts.listed:
        if isinstance(value := to_data(node), str) and value:
            return value
        sink.add(rules.WRONG_TYPE.at(node.span, f"{what} should be a name, got {describe(node, value)}"))
        return None
    wanted = "texts of one token each, or ids from 0 on" if texts.ids else "names"
    if not isinstance(node, Sequence) or not node.items:
        message = f"{what} should be a list of {wanted}, got {describe(node, to_data(node))}"
        sink.add(rules.WRONG_TYPE.at(node.span, message))
        return None
    values = []
    for item in node.items:
        value = to_data(item)
        number = texts.ids and isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not number and not (isinstance(value, str) and value):
            sink.add(
                rules.WRONG_TYPE.at(item.span, f"{what} should have {wanted}, got {describe(item, value)}")
            )
            return None
        values.append(value)
    return tuple(values)


def check_arguments(
    transform: ModelTransform,
    params: Mapping[str, Any],
    given: Collection[str],
    span: Callable[[str], Span],
    sink: Sink,
) -> None:
    """Check arguments against each other.

    Args:
        transform: the transform.
        params: the values of its arguments.
        given: those that are written, right or wrong.
        span: where an argument stands.
        sink: takes the mistakes.
    """
    if params.get("roles") and params.get("assistant_only") is False:
        message = "`roles` says whose tokens count, and with `assistant_only: false` all do"
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span("roles"), message, help="leave one of the two out"))
    if not params.get("use_ray_service"):
        for param in transform.of_actors:
            if params.get(param.name) != param.default:
                message = f"`{param.name}` is of processes that the models run in, and they run here"
                help = "write `use_ray_service: true`, or leave it out"
                sink.add(rules.PARAM_OUT_OF_RANGE.at(span(param.name), message, help=help))
    elif params.get("lifetime") is not None and "actor_name" not in given:
        message = "nobody could find processes again that live on without a name"
        help = "give them one: `actor_name: kl`"
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span("lifetime"), message, help=help))
