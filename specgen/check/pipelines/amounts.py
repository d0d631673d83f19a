"""Whether the numbers of a pipeline fit each other, and whether somebody needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.model import Parameter
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.model import (
    Acting,
    Amount,
    CheckedPipeline,
    Estimation,
    PipelineLoss,
    PipelineOptimizer,
    Setting,
)
from specgen.check.pipelines.numbers import nearest_divisor
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar, Sequence

_BATCH = 64
"""A batch of an on-policy training has at least so many frames, or a warning."""
_ENSEMBLE = 5
"""Values of that many members bear more than one update for each frame (Chen et al. 2021)."""
_FRAMES = 4
"""So many new frames there are for an update of deep Q-learning (Mnih et al. 2015), and fewer for one of actor-critics."""


def check_amounts(pipeline: CheckedPipeline, given: tuple[LossNumbers, ...], sink: Sink) -> None:
    """Report numbers of a pipeline that do not fit each other.

    Args:
        pipeline: the pipeline, all parts of which are sound.
        given: the value of every parameter of each of its losses.
        sink: takes every mistake.
    """
    data, limits = pipeline.data, pipeline.limits
    _check_data(data, given, sink)
    if isinstance(data, OnPolicyData):
        rows = "environments" if pipeline.in_whole_rows else "frames"
        _check_accumulated(data, rows if pipeline.turns is None else "conversations", sink)
    if isinstance(data, ReplayData):
        _check_steps(data, pipeline.losses, sink)
    if limits.frames is not None and not isinstance(data, RecordedData):
        _check_total(data, pipeline.acting, limits.frames, sink)
    total, unit = limits.total, limits.unit
    _check_due(limits, total, sink)
    for one in {targets.amount: targets for targets in pipeline.targets}.values():
        _check_targets(one, _updates_of(data, limits), sink)
    for loss, values in zip(pipeline.losses, given, strict=True):
        _check_advantages(loss.estimation, values, sink)
    for optimizer in pipeline.optimizers:
        _check_optimizer(optimizer, total, unit, sink)
    for amount in pipeline.amounts:
        _check_length(amount, total, unit, sink)


LossNumbers = Mapping[str, object]


def _check_data(data: PipelineData, given: tuple[LossNumbers, ...], sink: Sink) -> None:
    if isinstance(data, RecordedData):
        return
    frames = int(data.num_envs.default * data.num_steps.default)
    product = f"num_envs * num_steps = {data.num_envs.default} * {data.num_steps.default} = {frames}"
    if isinstance(data, OnPolicyData):
        if frames < _BATCH:
            message = f"a batch has {product} frames"
            # a multiple of what is there: minibatches, groups and workers divide it, too
            enough = int(data.num_envs.default) * -(-_BATCH // frames)
            help = f"more environments side by side cost less than more steps: `num_envs: {enough}`"
            sink.add(value_rules.SMALL_BATCH.at(data.num_envs.span, message, help=help))
        return
    if data.capacity.default < frames:
        message = f"a buffer of {data.capacity.default} frames does not hold {product} new ones"
        sink.add(number_rules.DOES_NOT_FIT.at(data.capacity.span, message, help="write 100_000"))
    if not data.updates_said and frames > _FRAMES:
        message = f"one update for {product} new frames, since nothing says `updates`"
        help = f"write `updates: {frames}` for one each frame, as actor-critics have it, or `updates: {frames // _FRAMES}` as deep Q-learning"
        several = data.num_envs if data.num_envs.default >= data.num_steps.default else data.num_steps
        sink.add(value_rules.UPDATE_RATIO.at(several.span, message, help=help))
        return
    updates = int(data.updates.default)
    members = [values.get("num_qvalue_nets") for values in given]
    many = any(isinstance(one, int | float) and one >= _ENSEMBLE for one in members)
    if updates > frames and not many:
        message = f"{updates} updates for {product} new frames"
        help = f"write `updates: {frames}`, or more members: `num_qvalue_nets: 10`"
        sink.add(value_rules.UPDATE_RATIO.at(data.updates.span, message, help=help))
    elif 256 * updates < frames:
        message = f"{updates} updates for {product} new frames"
        sink.add(
            value_rules.UPDATE_RATIO.at(data.updates.span, message, help=f"write `updates: {frames // 8}`")
        )


def _check_accumulated(data: OnPolicyData, rows: str, sink: Sink) -> None:
    """Report updates that are not computed in equal parts, of frames or of whole environments or conversations."""
    parts = data.accumulate
    if parts is None:
        return
    count = data.frames_of_update // (1 if rows == "frames" else int(data.num_steps.default))
    if count % parts.default:
        message = f"{parts.default} equal parts of an update of {count} {rows}"
        help = f"write {nearest_divisor(count, parts.default)}"
        sink.add(number_rules.DOES_NOT_FIT.at(parts.span, message, help=help))


def _check_steps(data: ReplayData, losses: tuple[PipelineLoss, ...], sink: Sink) -> None:
    """Report a sum over several steps that a loss does not discount as such."""
    if data.n_step is None or data.n_step.default == 1:
        return
    for loss in losses:
        if not loss.loss.estimators and all(role.name != "steps_to_next_obs" for role in loss.loss.roles):
            message = f"`{loss.loss.name}` does not read over how many steps rewards were summed"
            notes = [Note("the loss", loss.span)]
            sink.add(
                value_rules.NOT_DISCOUNTED.at(
                    data.n_step.span, message, notes=notes, help="leave out `n_step`"
                )
            )


def _check_total(data: OnPolicyData | ReplayData, acting: Acting, total: Setting, sink: Sink) -> None:
    """Report a training that ends before it begins."""
    batch = data.num_envs.default * data.num_steps.default
    notes = [Note("the end of the training", total.span)]
    if batch > total.default:
        message = f"the first batch has {batch} frames, and the training ends after {total.default}"
        sink.add(number_rules.DOES_NOT_FIT.at(data.num_steps.span, message, notes=notes))
    elif isinstance(data, ReplayData) and data.warm_up_frames.default >= total.default:
        message = f"the first update comes after {data.warm_up_frames.default} frames, and the training ends after {total.default}"
        sink.add(number_rules.DOES_NOT_FIT.at(data.warm_up_frames.span, message, notes=notes))
    random = acting.random_frames
    if random is not None and random.default >= total.default:
        message = (
            f"actions are random for {random.default} frames, and the training ends after {total.default}"
        )
        sink.add(number_rules.DOES_NOT_FIT.at(random.span, message, notes=notes))


def _check_due(limits: Limits, total: Setting, sink: Sink) -> None:
    unit = limits.unit
    for setting, what in ((limits.evaluate_every, "evaluated"), (limits.checkpoint_every, "kept")):
        if setting.default > total.default:
            message = f"the training is {what} every {setting.default} {unit}, and ends after {total.default}"
            notes = [Note("the end of the training", total.span)]
            help = f"write `every: {max(1, int(total.default) // 20)}`"
            sink.add(number_rules.NEVER_DUE.at(setting.span, message, notes=notes, help=help))


def _updates_of(data: PipelineData, limits: Limits) -> int:
    """How many updates a training has."""
    if isinstance(data, RecordedData) or limits.frames is None:
        return 0 if limits.updates is None else int(limits.updates.default)
    batch = data.num_envs.default * data.num_steps.default
    if isinstance(data, ReplayData):
        return int((limits.frames.default - data.warm_up_frames.default) // batch * data.updates.default)
    size, count = data.minibatch_size, data.minibatches
    minibatches = (
        count.default if count is not None else batch // (size.default if size is not None else batch)
    )
    return int(limits.frames.default // batch * data.epochs.default * minibatches)


def _check_targets(targets: TargetUpdates, updates: int, sink: Sink) -> None:
    """Report targets that are replaced for the first time behind the end."""
    every = 1 if targets.every is None else targets.every.default
    between = targets.amount.setting.default * every
    if targets.kind == "hard" and between > updates:
        message = f"targets are replaced every {between:g} updates, and the training has about {updates}"
        notes = (
            []
            if targets.every is None
            else [Note("the updater steps in some updates only", targets.every.span)]
        )
        help = f"write `interval: {max(1, int(updates / every / 50))}`"
        sink.add(value_rules.NEVER_REPLACED.at(targets.amount.setting.span, message, notes=notes, help=help))


def _check_advantages(estimation: Estimation | None, given: LossNumbers, sink: Sink) -> None:
    place = None if estimation is None else estimation.average_gae
    if place is not None and given.get("normalize_advantage") is True:
        message = "`average_gae` normalises advantages, and `normalize_advantage` of the loss does it again"
        sink.add(value_rules.NORMALISED_TWICE.at(place, message, help="leave it out"))


def _check_optimizer(optimizer: PipelineOptimizer, total: Setting, unit: str, sink: Sink) -> None:
    lr = optimizer.lr
    bound = 1.0 if optimizer.kind == "sgd" else 0.1
    if lr.setting.default > bound:
        message = f"`{optimizer.kind}` moves weights by about {lr.setting.default:g} at each step"
        sink.add(value_rules.LARGE_STEP.at(lr.setting.span, message, help="write `lr: 3.0e-4`"))
    for field, number in (("lr", lr), ("max_grad_norm", optimizer.max_grad_norm)):
        if number is None or number.schedule is None or len(number.further) < 2:
            continue
        end, over = number.further[:2]
        if end is not None and over is not None and end.default == 0 and over.default < total.default:
            message = (
                f"`{field}` is 0 after {over.default} {unit}, and the training ends after {total.default}"
            )
            notes = [Note("the end of the training", total.span)]
            help = "leave `over` out: the schedule lasts as long as the training"
            sink.add(number_rules.SCHEDULE_END.at(over.span, message, notes=notes, help=help))


def _check_length(amount: Amount, total: Setting, unit: str, sink: Sink) -> None:
    over = amount.further[1] if len(amount.further) > 1 else None
    if amount.points:
        over = amount.points[-1][0]
    if over is not None and over.default > total.default:
        message = (
            f"the schedule of `{amount.name}` lasts {over.default} {unit}, and the training {total.default}"
        )
        notes = [Note("the end of the training", total.span)]
        shorter = "leave `over` out: the schedule lasts as long as the training"
        help = f"write {total.default}" if amount.points else shorter
        sink.add(number_rules.SCHEDULE_END.at(over.span, message, notes=notes, help=help))


def check_use(
    context: PipelineContext, params: Mapping[str, Parameter], losses: tuple[PipelineLoss, ...]
) -> None:
    """Report parameters of the pipeline that no field names, and networks that nobody trains."""
    file, path, numbers, sink = context.file, context.path, context.numbers, context.sink
    refused = {item.span for item in sink.items if item.severity == "error"}
    for name in params:
        if name not in numbers.named and not refused & set(_places_of(name, file.node(*path))):
            span = file.key_span(*path, "params", name)
            message = f"no field names `{name}`"
            help = f"write it where a number is meant, `{name}`, or leave it out"
            sink.add(episode_rules.UNREAD_PARAMETER.at(span, message, help=help))
    trained = {name for loss in losses for name in loss.trainable}
    for loss in losses:
        for network in loss.networks:
            may_learn = network.role.trains and network.has_parameters and not network.layers.frozen
            if network.name not in trained and may_learn:
                message = f"no term of `{loss.loss.name}`, as it is given here, trains `{network.name}`"
                notes = [Note("the loss", loss.span)]
                better = "leave it out" if network.role.optional else None
                sink.add(episode_rules.UNTRAINED.at(network.span, message, notes=notes, help=better))


def _places_of(name: str, node: Node | None) -> Iterator[Span]:
    """Where a word stands as a value in a declaration."""
    if isinstance(node, Scalar):
        yield from (node.span,) if node.text == name else ()
    for one in node.items if isinstance(node, Sequence) else ():
        yield from _places_of(name, one)
    for _, one in node.entries if isinstance(node, MappingNode) else ():
        yield from _places_of(name, one)
