"""How the target parameters of a pipeline follow."""

from __future__ import annotations

from specgen.check.pipelines.fields import TARGETS_EVERY
from specgen.check.pipelines.model import PipelineLoss, TargetUpdates
from specgen.check.pipelines.numbers import Numbers
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline import Pipeline


def read_targets(
    file: SchemaFile,
    path: tuple[str, ...],
    pipeline: Pipeline,
    losses: tuple[PipelineLoss, ...],
    numbers: Numbers,
    sink: Sink,
) -> TargetUpdates | None:
    """How the targets of the losses follow; reported where there are none, or nobody moves them."""
    declared = pipeline.target_updater
    moved = next((loss for loss in losses if loss.targets), None)
    if declared is None:
        if moved is not None:
            names = ", ".join(f"`{name}`" for name in moved.targets)
            message = f"`{moved.loss.name}` has targets of {names}, and nobody moves them"
            help = "write `target_updater: {soft: {tau: 0.005}}`"
            sink.add(value_rules.NO_TARGET_UPDATER.at(moved.span, message, help=help))
        return None
    span = file.key_span(*path, "target_updater")
    if moved is None:
        message = f"`{losses[0].loss.name}` has no targets that could be moved"
        sink.add(value_rules.NO_TARGETS.at(span, message, help="leave out `target_updater`"))
        return None
    kinds = [kind for kind in ("soft", "hard") if getattr(declared, kind) is not None]
    if len(kinds) != 1:
        sink.add(rules.CHOICE.at(span, "targets follow `soft` or `hard`"))
        return None
    (kind,) = kinds
    field = "tau" if kind == "soft" else "interval"
    amount = numbers.amount("target_updater", kind, field)
    if amount is None:
        if getattr(getattr(declared, kind), field) is None:
            sink.add(rules.MISSING_PART.at(span, f"`{kind}` needs `{field}`"))
        return None
    every = numbers.setting("target_updater", "every", fact=TARGETS_EVERY)
    made = TargetUpdates("soft" if kind == "soft" else "hard", amount, every)
    _check_pace(made, sink)
    return made


def _check_pace(targets: TargetUpdates, sink: Sink) -> None:
    """Report targets that hardly stand still."""
    if targets.every is not None:
        return  # some of the updates only
    value, span = targets.amount.setting.default, targets.amount.setting.span
    if targets.kind == "soft" and value > 0.5:
        message = f"`tau` {value:g} replaces {100 * value:g}% of the target at each update"
        near = 1 - value
        help = (
            f"write `tau: {near:.3g}`" if near > 0 else "write `tau: 0.005`, or leave targets out of the loss"
        )
        sink.add(value_rules.FAST_TARGET.at(span, message, help=help))
    elif targets.kind == "soft" and value > 0.1:
        message = f"{100 * value:g}% of the target is replaced at each update"
        sink.add(value_rules.CLOSE_TARGET.at(span, message, help="write `tau: 0.005`"))
    elif targets.kind == "hard" and value < 10:
        message = f"the target is replaced every {value:g} updates"
        sink.add(value_rules.CLOSE_TARGET.at(span, message, help="write `interval: 500`"))
