"""When a pipeline's training ends, when it is looked at, and when it is kept."""

from __future__ import annotations

from specgen.check.pipelines.data_model import PipelineData, ReplayData
from specgen.check.pipelines.fields import (
    CHECKPOINT_EVERY,
    EVALUATE_EPISODES,
    EVALUATE_EVERY,
    EVALUATE_STEPS,
    STOP_HOURS,
    STOP_RETURN,
    TOTAL_FRAMES,
    TOTAL_UPDATES,
    Fact,
)
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.values import replace


def read_limits(context: PipelineContext, data: PipelineData | None, group: int) -> Limits | None:
    """The limits of the pipeline; None after reporting a mistake, or where mistakes in its data leave them open.

    Where nothing is said, evaluations are of whole groups of `group` episodes.
    """
    file, path, pipeline = context.file, context.path, context.pipeline
    numbers, sink = context.numbers, context.sink
    recorded, unit = pipeline.is_recorded, pipeline.unit  # also where the data have mistakes
    frames = numbers.setting("stop", "frames", fact=TOTAL_FRAMES)
    updates = numbers.setting("stop", "updates", fact=TOTAL_UPDATES)
    hours = numbers.setting("stop", "hours", fact=STOP_HOURS)
    stop_return = numbers.setting("stop", "return", fact=STOP_RETURN)
    total = updates if unit == "updates" else frames
    if total is None:
        assert pipeline.stop is not None
        given = pipeline.stop.frames is not None or pipeline.stop.updates is not None
        undecided = data is None and given  # which of them counts, sound data would say
        if not undecided and getattr(pipeline.stop, unit) is None:
            why = "recorded data have no end" if recorded else "evaluations and schedules are counted in them"
            if stop_return is not None:
                why = "a return may never be reached"
            message = f"`stop` needs `{unit}`: {why}"
            sink.add(
                rules.MISSING_PART.at(file.key_span(*path, "stop"), message, help=f"write `{unit}: 100_000`")
            )
        return None
    if recorded and frames is not None:
        span = file.key_span(*path, "stop", "frames")
        message = "the data are recorded, and `frames` has no effect: updates are counted"
        sink.add(episode_rules.NOBODY_ACTS.at(span, message, help="leave it out"))
    every = numbers.setting("evaluate", "every", fact=_of(EVALUATE_EVERY, unit))
    if every is None:
        every = numbers.default("", _part(total.default, 20), _of(EVALUATE_EVERY, unit))
    episodes = numbers.setting("evaluate", "episodes", fact=EVALUATE_EPISODES)
    if episodes is None:
        episodes = numbers.default("", -(-20 // group) * group, EVALUATE_EPISODES)
    kept = numbers.setting("checkpoint", "every", fact=_of(CHECKPOINT_EVERY, unit))
    if kept is None:
        kept = numbers.default("", _part(total.default, 10), _of(CHECKPOINT_EVERY, unit))
    keep = 2 if pipeline.checkpoint is None else pipeline.checkpoint.keep
    if keep < 1:
        message = f"`keep` must be >= 1, got {keep}"
        sink.add(value_rules.OUT_OF_RANGE.at(file.span(*path, "checkpoint", "keep"), message))
    keeps_buffer = pipeline.checkpoint is None or pipeline.checkpoint.buffer
    if data is not None and not keeps_buffer and not isinstance(data, ReplayData):
        message = "there is no replay buffer that a checkpoint could hold"
        span = file.key_span(*path, "checkpoint", "buffer")
        sink.add(forms.NO_BUFFER.at(span, message, help="leave it out"))
    return Limits(
        frames=None if recorded else frames,
        updates=updates,
        hours=hours,
        stop_return=stop_return,
        evaluate_every=every,
        episodes=episodes,
        episode_steps=numbers.setting("evaluate", "max_steps", fact=EVALUATE_STEPS),
        deterministic=pipeline.evaluate is None or pipeline.evaluate.deterministic,
        checkpoint_every=kept,
        keep=keep,
        keeps_buffer=keeps_buffer,
    )


def _of(fact: Fact, unit: str) -> Fact:
    return replace(fact, doc=fact.doc.format(unit=unit))


def _part(total: float, parts: int) -> int:
    """A part of the whole, at least 1."""
    return max(1, int(total) // parts)
