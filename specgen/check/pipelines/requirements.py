"""What a loss requires of its arguments together, of those that a pipeline gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specgen.check.pipelines.loss_conditions import LossConditions
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping

if TYPE_CHECKING:
    from specgen.check.pipelines.losses import LossArguments


def check_requirements(
    found: LossArguments, conditions: LossConditions, file: SchemaFile, sink: Sink
) -> None:
    """Report what the constructor of the loss would refuse: conditions that these arguments decide, and that don't hold."""
    node = find(file.root, found.place)
    written = [key.text for key, _ in node.entries] if isinstance(node, Mapping) else []
    for requirement in found.loss.require:
        condition = requirement.condition
        if conditions.holds(condition.typed):
            continue
        about = next((name for name in reversed(written) if name in condition.reads), None)
        span = file.key_span(*found.place) if about is None else file.key_span(*found.place, about)
        message = f"`{found.loss.name}` refuses these arguments: {requirement.message}"
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span, message))
