"""What of a pipeline torch can compile as one: the loss of an update and its gradients."""

from __future__ import annotations

from specgen.check.pipelines.data_model import OnPolicyData, PipelineData
from specgen.check.pipelines.heads_model import ModelHead
from specgen.check.pipelines.layers_model import are_recurrent
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics.rules import schema as rules


def read_compiled(
    context: PipelineContext, losses: tuple[PipelineLoss, ...], data: PipelineData
) -> bool | None:
    """Whether torch compiles the loss by default; None where nothing is said of it, or it can't.

    Reports what is to be compiled, and is more than one graph, or one whose compiling takes minutes.
    """
    declared = context.pipeline.compile
    what = None if declared is None else _in_the_way(losses, data)
    if what is None:
        return declared
    if declared:
        span = context.file.key_span(*context.path, "compile")
        message = f"compiling {what} is not available yet"
        context.sink.add(rules.NOT_AVAILABLE.at(span, message, help="write `compile: false`"))
    return None


def _in_the_way(losses: tuple[PipelineLoss, ...], data: PipelineData) -> str | None:
    """What can't be compiled; None where all can."""
    networks = tuple(network for loss in losses for network in loss.networks)
    if any(isinstance(network.head, ModelHead) for network in networks):
        return "losses of language models"
    if isinstance(data, OnPolicyData) and data.accumulate is not None:
        return "gradients that are computed in several parts (`accumulate`)"
    if len(losses) > 1:
        return "several losses"
    if are_recurrent(networks):
        return "recurrent layers"
    return None
