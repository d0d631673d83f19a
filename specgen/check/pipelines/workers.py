"""The workers of a pipeline: how many processes collect, and whether its other parts bear that."""

from __future__ import annotations

from specgen.check.pipelines.data_model import PipelineData, RecordedData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.fields import WORKER_CPUS, WORKER_GPUS, WORKERS
from specgen.check.pipelines.layers_model import are_recurrent
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.numbers import nearest_divisor
from specgen.check.pipelines.reader import PipelineContext
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.diagnostics import Note
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipeline_workers as rules
from specgen.diagnostics.rules import pipelines as form_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.values import replace


def read_workers(context: PipelineContext, data: PipelineData | None) -> CollectingWorkers | None:
    """The workers of the pipeline; None without, or after reporting a mistake."""
    file, path, pipeline = context.file, context.path, context.pipeline
    numbers, sink = context.numbers, context.sink
    declared = pipeline.workers
    if declared is None:
        return None
    span = file.key_span(*path, "workers")
    if isinstance(data, RecordedData):
        message = "the data are recorded, and `workers` has nothing to collect"
        sink.add(episode_rules.NOBODY_ACTS.at(span, message, help="leave it out"))
        return None
    if (declared.processes is None) is (declared.ray is None):
        which = "none" if declared.ray is None else "both"
        message = f"workers are `processes` of this machine or actors of `ray`; here is {which}"
        sink.add(form_rules.CHOICE.at(span, message, help="write `workers: {processes: 4}`"))
        return None
    kind = "ray" if declared.processes is None else "processes"
    resources = {}
    for field, fact in (("cpus", WORKER_CPUS), ("gpus", WORKER_GPUS)):
        if getattr(declared, field) is None:
            continue
        if kind == "processes":
            message = f"`{field}` is what an actor of Ray asks for, and these are processes"
            sink.add(rules.OF_RAY.at(file.key_span(*path, "workers", field), message, help="leave it out"))
        elif (asked := numbers.setting("workers", field, fact=fact)) is not None:
            resources[f"num_{field}"] = asked
    count = numbers.setting("workers", kind, fact=replace(WORKERS, called=kind))
    if count is None:
        return None
    if data is not None and data.num_envs.default % count.default:
        message = f"{count.default} workers do not divide num_envs = {data.num_envs.default}"
        best = nearest_divisor(int(data.num_envs.default), count.default)
        notes = [Note("the environments", data.num_envs.span)]
        help = f"write `{kind}: {best}`"
        sink.add(number_rules.DOES_NOT_FIT.at(count.span, message, notes=notes, help=help))
    return CollectingWorkers("ray" if kind == "ray" else "processes", count, declared.sync, resources)


def check_workers(
    context: PipelineContext,
    workers: CollectingWorkers | None,
    env: PipelineEnv,
    losses: tuple[PipelineLoss, ...],
) -> None:
    """Report what does not bear batches of one worker after the other."""
    file, path, sink = context.file, context.path, context.sink
    if workers is None or workers.sync:
        return
    span = file.key_span(*path, "workers", "sync")
    if are_recurrent(network for loss in losses for network in loss.networks):
        message = "networks with a memory learn from sequences of all environments, and these batches are of one worker after the other"
        sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help="leave out `sync`"))
        return
    for loss in losses:
        corrected = loss.estimation is not None and loss.estimation.kind == "vtrace"
        if is_on_policy(loss) and not corrected:
            message = f"`{loss.loss.name}` learns from what the present policy did, and these data are of older ones"
            notes = [Note("the loss", loss.span)]
            sink.add(rules.OLD_POLICIES.at(span, message, notes=notes, help="leave out `sync`"))
    if not any(entry.key[-1] == "episode_reward" for entry in env.entries.values()):
        message = f"`{env.name}` has no sum of rewards, and batches are of one worker after the other"
        notes = [Note("the environment", env.span)]
        help = "put `RewardSum`, of specgen_std/transforms/reward_sum, into the chain"
        sink.add(rules.RETURNS_OF_NOBODY.at(span, message, notes=notes, help=help))
