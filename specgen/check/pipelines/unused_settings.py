"""Settings of networks for layers that these networks do not have."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.layers_model import Layers
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import pipeline_networks as rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline_networks import NetworkBody


def report_unused_settings(
    file: SchemaFile,
    path: tuple[str, ...],
    name: str,
    body: NetworkBody,
    layers: Layers,
    sink: Sink,
    *,
    is_trunk: bool = False,
    of_actions: bool = False,
) -> None:
    """Report what a network, or a trunk, says of layers that it does not have; not what it inherits, whose layers it may replace.

    Args:
        file: where it is declared.
        path: the pipeline in it.
        name: the network.
        body: its declaration.
        layers: its layers.
        sink: takes the mistakes.
        is_trunk: whether it has no last layer, which other networks have.
        of_actions: whether it gives values of each action of a finite set.
    """
    unused = list(_unused(name, body, layers, is_trunk))
    if body.dueling and not of_actions:
        unused.append((("dueling",), f"it is of values of each action, and `{name}` gives none"))
    for field, why in unused:
        span = file.key_span(*path, "networks", name, *field)
        if span.begins_in(file.span(*path)):
            message = f"`{field[-1]}` has no effect: {why}"
            sink.add(rules.UNUSED_SETTING.at(span, message, help="leave it out"))


def _unused(
    name: str, body: NetworkBody, layers: Layers, is_trunk: bool
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Fields without effect, and why."""
    if not layers.cells:
        for field in ("layer_norm", "dropout"):
            if getattr(body, field):
                yield (field,), f"it is of hidden layers, `mlp`, and `{name}` has none"
        if "activation" in body.model_fields_set and not layers.convolutions:
            yield ("activation",), f"it stands behind hidden layers and convolutions, and `{name}` has none"
    if body.init is None:
        return
    if body.init.orthogonal is None:
        yield ("init",), "it says no weights, as `orthogonal: {gain: 1.4}` does"
    elif is_trunk and not (layers.cells or layers.convolutions or layers.own):
        yield ("init",), f"it is of linear layers and convolutions, and `{name}` has none"
    elif is_trunk and body.init.orthogonal.head_gain is not None:
        yield ("init", "orthogonal", "head_gain"), f"it is of a last layer, and `{name}`, a trunk, has none"
