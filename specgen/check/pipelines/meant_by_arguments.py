"""Arguments that a loss does not have, and where what they say belongs: a matter of its networks, or of its pipeline."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from specgen.check.losses.model import CheckedLoss
from specgen.check.pipelines.estimator_numbers import ESTIMATOR_NUMBERS
from specgen.diagnostics import suggestion
from specgen.schema.load import SchemaFile, find
from specgen.schema.other_names import field_otherwise_called, named_as
from specgen.schema.unknown_fields import field_of_a_pipeline
from specgen.source import Mapping, Node

_OF_SUPPORTS: Final = ("support", "atoms", "v_min", "v_max")
_OF_COUNTS: Final = ("n_", "num_")


def meant_by_argument(
    loss: CheckedLoss,
    argument: str,
    arguments: Collection[str],
    file: SchemaFile,
    place: tuple[str | int, ...],
) -> str:
    """What to write in the place of an argument that a loss does not have.

    Args:
        loss: the loss.
        argument: what it does not have.
        arguments: those that it has.
        file, place: where it is named in a pipeline.
    """
    return (
        _said_by_network(loss, argument)
        or field_otherwise_called(argument, arguments)
        or suggestion(argument, arguments)
        or _said_by_estimator(loss, argument, find(file.root, place[:2]))
        or field_of_a_pipeline(find(file.root, place[:2]), place[:2], argument)
        or f"its arguments are {', '.join(sorted(arguments))}"
    )


def _said_by_estimator(loss: CheckedLoss, argument: str, pipeline: Node | None) -> str | None:
    """The estimators of the loss that have such a number; None where there is none, or the pipeline names one."""
    named = {key: named_as(argument, numbers) for key, numbers in ESTIMATOR_NUMBERS.items()}
    kinds = [kind for kind in loss.estimators if named[kind]]
    if not kinds or (isinstance(pipeline, Mapping) and pipeline.get("value_estimator") is not None):
        return None
    first, *more = kinds
    others = f", or in the place of `{first}` {', '.join(f'`{one}`' for one in more)}" if more else ""
    return f"write `value_estimator: {{{first}: {{{named[first]}: …}}}}`{others}"


def _said_by_network(loss: CheckedLoss, argument: str) -> str | None:
    """What to write in the place of an argument that a network of the loss says; None where none does."""
    for network in loss.networks:
        if "support" in network.buffers and argument in _OF_SUPPORTS:
            return f"the network says it: `{network.name}: {{support: {{atoms: 51, low: 0, high: 100}}}}`"
        for size in () if network.policy else network.value.sizes:
            if str(size) in (argument, *(argument.removeprefix(prefix) for prefix in _OF_COUNTS)):
                return f"the network says it: `{network.name}: {{out: {{{size}: 64}}}}`"
    return None
