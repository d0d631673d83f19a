"""Losses that pipelines name without arguments: `loss: DQNLoss` is `loss: {DQNLoss: {}}`."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from specgen.schema.loss import DROP
from specgen.schema.pipeline import names_losses
from specgen.source import Mapping, Node, Scalar
from specgen.values import replace


def with_arguments(root: Mapping) -> Mapping:
    """The nodes of a file, in which every loss of a pipeline has arguments, if only none."""
    pipelines = root.get("pipelines")
    if not isinstance(pipelines, Mapping):
        return root
    made = {
        key.text: _replaced(one, {"loss": _losses(loss)})
        for key, one in pipelines.entries
        if isinstance(one, Mapping) and (loss := one.get("loss")) is not None
    }
    return _replaced(root, {"pipelines": _replaced(pipelines, made)})


def _losses(node: Node) -> Node:
    if isinstance(node, Mapping) and names_losses(key.text for key, _ in node.entries):
        return _replaced(node, {key.text: _whole(one) for key, one in node.entries})
    return _whole(node)


def _whole(node: Node) -> Node:
    """`DQNLoss` as `{DQNLoss: {}}`."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or node.value == DROP:
        return node
    return Mapping(((node, Mapping((), node.span)),), node.span)


def _replaced(node: Mapping, values: MappingOf[str, Node]) -> Mapping:
    """The mapping with other values of these keys."""
    return replace(node, entries=tuple((key, values.get(key.text, one)) for key, one in node.entries))
