"""Transitions over several steps, whose rewards are discounted by the number of the whole pipeline."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.pipelines.model import PipelineData, PipelineLoss, ReplayData
from specgen.check.pipelines.numbers import Numbers
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import pipeline_numbers as rules


def discounted(
    data: PipelineData | None, losses: tuple[PipelineLoss, ...], numbers: Numbers, sink: Sink
) -> tuple[PipelineData | None, tuple[PipelineLoss, ...]]:
    """The data and the losses, which discount by one number where the data are of several steps."""
    if not isinstance(data, ReplayData) or data.n_step is None:
        return data, losses
    waiting = data.n_step.default * data.num_envs.default
    if data.warm_up_frames.default <= waiting:
        message = (
            f"after {data.warm_up_frames.default} frames there may be nothing to sample yet: "
            f"n_step * num_envs = {waiting} of them wait for later steps"
        )
        help = "write a larger `warm_up_frames`"
        sink.add(rules.DOES_NOT_FIT.at(data.n_step.span, message, help=help))
    gamma = numbers.settings.get("gamma") or numbers.default("gamma", 0.99)
    given = tuple(
        replace(one, settings={**one.settings, "gamma": gamma})
        if any(param.name == "gamma" for param in one.loss.params)
        else one
        for one in losses
    )
    return replace(data, gamma=gamma), given
