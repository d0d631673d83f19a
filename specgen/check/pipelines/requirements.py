"""What a loss requires of its arguments together, of those that a pipeline gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Parameter
from specgen.check.param_arguments import check_argument
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.loss_conditions import LossConditions
from specgen.check.pipelines.model import PipelineNetwork
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source import Node


def check_requirements(
    found: LossArguments,
    arguments: Mapping[str, object],
    networks: Iterable[PipelineNetwork],
    file: SchemaFile,
    sink: Sink,
) -> None:
    """Report what the constructor of the loss would refuse: conditions that its arguments decide, and that don't hold.

    Pipelines that are there to be extended are passed over: those that extend them may give other arguments.

    Args:
        found: what the pipeline says of the loss.
        arguments: what it is given besides numbers, that of its networks included.
        networks: its networks.
        file, sink: the file of the pipeline, and what takes the mistakes.
    """
    if file.module.pipelines[found.place[1]].abstract:
        return
    names = {network.role.name for network in networks}
    conditions = LossConditions(found.loss, {**found.values, **arguments}, names)
    node = find(file.root, found.place)
    given = {key.text: value for key, value in node.entries} if isinstance(node, MappingNode) else {}
    mistaken = {
        one.name
        for one in found.loss.params
        if one.name in given and one.kind in ("bool", "enum") and _is_mistaken(one, given[one.name])
    }
    for requirement in found.loss.require:
        condition = requirement.condition
        if conditions.holds(condition.typed) or mistaken & {*condition.reads}:
            continue
        about = next((name for name in reversed(given) if name in condition.reads), None)
        span = file.key_span(*found.place) if about is None else file.key_span(*found.place, about)
        message = f"`{found.loss.name}` refuses these arguments: {requirement.message}"
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span, message))


def _is_mistaken(param: Parameter, node: Node) -> bool:
    """Whether a value is none of the parameter's, which is reported."""
    found = Sink()
    check_argument(param, node, "", found)
    return found.has_errors
