"""The networks of the transforms of a chain: keywords of its constructor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.attributes import ENV_ATTRIBUTES
from specgen.check.chains.model import Instance
from specgen.check.names import refusal, refused
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import transform_networks as rules

_KEYWORDS = frozenset({"batch_size", "device", "check_domains", "gym_kwargs"})


def check_keywords(
    instances: Iterable[Instance], params: Mapping[str, str], spans: Mapping[int, Span], sink: Sink
) -> None:
    """Report keywords that two networks share, and those that the chain's class can't have.

    Args:
        instances: the transforms of the chain.
        params: those of the environment that they stand around, and of the chain, which are keywords, too: whose each is.
        spans: where each transform stands.
        sink: takes the mistakes.
    """
    first: dict[str, str] = {}
    for instance in instances:
        for network, keyword in instance.networks.items():
            span = spans[instance.position]
            reason = refusal(keyword)
            if reason is None and keyword in ENV_ATTRIBUTES | _KEYWORDS:
                reason = "every environment has it"
            if reason is None and keyword in params:
                reason = f"it is a parameter of {params[keyword]}"
            if reason is not None:
                sink.add(refused(keyword, reason, "network", span))
            elif keyword in first:
                name = instance.transform.name
                message = f"`{keyword}` is a network of `{first[keyword]}` already"
                help = f"give this one another keyword: `{name}: {{{network}: …}}`"
                sink.add(rules.SAME_KEYWORD.at(span, message, help=help))
            else:
                first[keyword] = instance.transform.name
