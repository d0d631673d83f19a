"""What an update of a pipeline does: its loss, the steps of its optimizers, and that of its targets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from specgen.check.pipelines.data_model import OnPolicyData, ReplayData
from specgen.check.pipelines.layers_model import are_recurrent, trunks_of, users_of
from specgen.check.pipelines.model import CheckedPipeline, PipelineLoss, PipelineOptimizer
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.literals import literal
from specgen.plan.pipelines.model import LossPlan, UpdatePlan
from specgen.plan.pipelines.parts import norm_part, optimizer_part
from specgen.plan.pipelines.read_keys import GIVEN
from specgen.plan.spec_text import key_text


def update_plan(pipeline: CheckedPipeline) -> UpdatePlan:
    """Plan an update.

    A term that trains only what is moved in some updates is summed in these, so that the others need no gradients of it.
    """
    moved_every = {
        part: None if one.every is None else one.every.name
        for one in pipeline.optimizers
        for part in one.parts
    }
    every: dict[str, str | None] = {}
    for loss in pipeline.losses:
        for term in loss.terms:
            found = {moved_every.get(part) for part in loss.trained[term]}
            every[f"{loss.part('losses')}[{literal(term)}]"] = found.pop() if len(found) == 1 else None
    if None not in every.values():
        every = dict.fromkeys(every)
    delayed = sorted({name for name in every.values() if name is not None})
    steps = groupby(_steps(pipeline), key=lambda step: step[0])
    return UpdatePlan(
        losses=tuple(_loss(loss, detached=pipeline.compile is not None) for loss in pipeline.losses),
        once=tuple(
            one.name for one in trunks_of(pipeline.networks) if len(users_of(one, pipeline.networks)) > 1
        ),
        batch=_batch(pipeline),
        terms=tuple(term for term, name in every.items() if name is None),
        delayed_terms=tuple(
            (name, tuple(term for term, other in every.items() if other == name)) for name in delayed
        ),
        optimizers=tuple(optimizer_part(one) for one in pipeline.optimizers),
        configured=_is_configured(pipeline),
        norms=tuple(
            (_norm(one), _clipped(one))
            for one in pipeline.optimizers
            if one.max_grad_norm is not None and one.every is None
        ),
        steps=tuple((name, tuple(text for _, text in group)) for name, group in steps),
        targets=bool(pipeline.targets),
        accumulate=pipeline.data.accumulate.name
        if isinstance(pipeline.data, OnPolicyData) and pipeline.data.accumulate is not None
        else "",
        next_actions=tuple((one.loss, one.network) for one in pipeline.next_actions),
        given=", ".join(map(literal, GIVEN)) if pipeline.turns is not None else "",
        compiled=pipeline.compile is not None,
        draws=any(loss.draws for loss in pipeline.losses),
    )


def _is_configured(pipeline: CheckedPipeline) -> bool:
    """Whether an update reads hyper-parameters."""
    data = pipeline.data
    norms = [one.max_grad_norm for one in pipeline.optimizers]
    return (
        any(norm is not None and norm.schedule is None for norm in norms)
        or any(one.every is not None for one in pipeline.optimizers)
        or any(one.every is not None for one in pipeline.targets)
        or (isinstance(data, OnPolicyData) and data.accumulate is not None)
    )


def _batch(pipeline: CheckedPipeline) -> str:
    """The dimensions of the batch of an update."""
    if isinstance(pipeline.data, ReplayData) and pipeline.data.slice_length is not None:
        return "slices, steps"
    if pipeline.turns is not None:
        return "conversations, answers"
    return "environments, steps" if are_recurrent(pipeline.networks) else "batch"


def _loss(loss: PipelineLoss, detached: bool) -> LossPlan:
    """How a loss is called; `detached`: what it gives is so already, as `Backward` returns it."""
    losses, detach = loss.part("losses"), "" if detached else ".detach()"
    metrics = [
        (loss.part(name), f"{losses}[{literal(name)}]{detach}") for name in (*loss.terms, *loss.metrics)
    ]
    metrics += [(loss.part(name), f"{losses}[{literal(name)}]{detach}.mean()") for name in loss.each]
    for name, (entry, part) in loss.by_part.items():
        metrics.append((loss.part(name), f"{losses}[{key_text(entry)}][{key_text(part)}].mean()"))
    return LossPlan(loss.part("loss"), losses, output_of(loss), tuple(metrics))


def output_of(loss: PipelineLoss) -> str:
    """The type of what a loss gives."""
    return f"{loss.loss.name}Output"


def _norm(optimizer: PipelineOptimizer) -> str:
    """What the norm of gradients is called in the log."""
    return f"{optimizer.name}_grad_norm" if optimizer.name else "grad_norm"


def _clipped(optimizer: PipelineOptimizer) -> str:
    """The call that scales gradients down, and returns their norm."""
    assert optimizer.max_grad_norm is not None
    parameters = f'parts.{optimizer_part(optimizer)}.param_groups[0]["params"]'
    most = f"config.{optimizer.max_grad_norm.name}"
    if optimizer.max_grad_norm.schedule is not None:
        most = f"parts.{norm_part(optimizer)}"
    return f"clip_grad_norm_({parameters}, {most})"


def _steps(pipeline: CheckedPipeline) -> Iterator[tuple[str | None, str]]:
    """The steps in order: those of each update, those of some, and those of the targets."""
    for one in sorted(pipeline.optimizers, key=_delay):
        every = None if one.every is None else one.every.name
        if every is not None and one.max_grad_norm is not None:
            yield every, _clipped(one)
        yield every, f"parts.{optimizer_part(one)}.step()"
    for targets in sorted(pipeline.targets, key=_delay):
        yield _delay(targets) or None, f"parts.{targets.part}.step()"


def _delay(moved: PipelineOptimizer | TargetUpdates) -> str:
    """The hyper-parameter that says how many updates lie between two steps; empty where each has one."""
    return "" if moved.every is None else moved.every.name
