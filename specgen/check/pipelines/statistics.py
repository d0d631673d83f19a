"""Whether what the transforms of a chain learn reaches the evaluations, and fits the data."""

from __future__ import annotations

from specgen.check.pipelines.data_model import PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.model import Devices
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import pipeline_episodes as rules

_AS_NUMBERS = (
    "take `ObservationNorm` with `loc` and `scale`, or normalise within the network: `layer_norm: true`"
)


def check_statistics(
    env: PipelineEnv,
    other: PipelineEnv,
    data: PipelineData | None,
    workers: CollectingWorkers | None,
    devices: Devices,
    sink: Sink,
) -> None:
    """Report statistics of observations that nobody learns, that evaluations lack, or that change below stored data.

    Args:
        env: the environment of the training.
        other: that of evaluations, which reads what the first one learns where both are one declaration.
        data: where the data come from.
        workers: the processes that collect, if others do.
        devices: where the parts lie.
        sink: takes every mistake.
    """
    for who in [who for who, by_steps in env.learned.items() if not by_steps]:
        message = f"{who}, has no statistics, and no training calls `init_stats`"
        help = "give it `loc` and `scale`, or take `VecNorm`, which learns from each step"
        sink.add(rules.OTHER_STATISTICS.at(env.span, message, help=help))
    learned = [who for who, by_steps in env.learned.items() if by_steps]
    for who in learned:
        if isinstance(data, RecordedData):
            why = "no environment acts from whose steps it could"
            help = _AS_NUMBERS
        elif workers is not None:
            why, help = (
                "each worker has others than the evaluations",
                f"leave out `workers`, or {_AS_NUMBERS}",
            )
        elif devices.apart:
            why = "environments of several devices have their own"
            help = f"write one name as the `device`, or {_AS_NUMBERS}"
        else:
            continue
        sink.add(rules.OTHER_STATISTICS.at(env.span, f"{who}, learns its statistics, and {why}", help=help))
        return
    if other.name != env.name:
        notes = [Note("the environment of the training", env.span)]
        for who in [*learned, *other.learned][:1]:
            message = f"{who}, learns its statistics, and another environment has others, or none"
            help = f"leave out `env` of `evaluate`: `{env.name}` is evaluated with what it has learned"
            sink.add(rules.OTHER_STATISTICS.at(other.span, message, notes=notes, help=help))
    elif learned and isinstance(data, ReplayData):
        message = f"{learned[0]}, learns its statistics, and the buffer keeps what it made of observations by older ones"
        help = f"{_AS_NUMBERS}; `allow: [SG599]` on the pipeline where they hardly move"
        sink.add(rules.OLD_STATISTICS.at(env.span, message, help=help))
