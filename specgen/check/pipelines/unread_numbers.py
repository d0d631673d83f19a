"""Numbers that a pipeline gives a loss and that no term or metric reads which the loss has with its other arguments."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.losses.model import CheckedLoss
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics.rules import pipeline_forms as rules


def report_unread_numbers(context: PipelineContext, given: LossArguments, loss: PipelineLoss) -> None:
    """Report them, but for those that are inherited by the pipeline."""
    file, path, sink = context.file, context.path, context.sink
    everywhere = _read_by(loss.loss, {one.target for one in (*loss.loss.terms, *loss.loss.metrics)})
    of_parts = {metric for (metric,), _ in loss.by_part.values()}
    read = _read_by(loss.loss, {*loss.terms, *loss.metrics, *loss.each, *of_parts})
    for name in (*given.settings, *given.pairs, *given.by_action):
        span = file.key_span(*given.place, name)
        if name not in everywhere - read or not span.begins_in(file.span(*path)):
            continue
        terms = [one.target for one in loss.loss.terms if name in _read_by(loss.loss, {one.target})]
        message = f"`{name}` has no effect: no term or metric reads it that `{loss.loss.name}` has with the other arguments"
        help = f"leave it out, or what leaves out {' and '.join(f'`{term}`' for term in terms)}"
        sink.add(rules.UNREAD_NUMBER.at(span, message, help=help if terms else "leave it out"))


def _read_by(loss: CheckedLoss, names: Collection[str]) -> set[str]:
    """The names that terms and metrics read, those of intermediate values and what these read among them."""
    found: set[str] = set()
    for one in (*loss.terms, *loss.metrics):
        if one.target in names:
            found |= one.reads
    for one in reversed(loss.let):
        if one.target in found:
            found |= one.reads
    return found
