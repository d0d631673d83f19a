"""The condition under which what is left of the passes over an on-policy batch is left out."""

from __future__ import annotations

from specgen.check.pipelines.fields import Fact
from specgen.check.pipelines.limits_model import Until
from specgen.check.pipelines.model import PipelineLoss, part_name
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import suggestion
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.expr import parse, tree
from specgen.schema.load import find
from specgen.source import Scalar

_PLACE = ("data", "on_policy", "until")


def read_until(context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> Until | None:
    """The condition of the pipeline; None where there is none, or after reporting a mistake."""
    file, path, numbers, sink = context.file, context.path, context.numbers, context.sink
    node = find(file.root, (*path, *_PLACE))
    if not isinstance(node, Scalar):
        return None
    expr = parse(node, sink)
    if expr is None:
        return None
    operands = expr.operands if isinstance(expr, tree.Compare) and expr.ops == (">",) else ()
    metric = operands[0] if operands else None
    if not isinstance(metric, tree.Name):
        message = "passes end when a metric of an update is above a number"
        help = "write a metric and a number: `kl_approx > 0.03`"
        sink.add(forms.NO_CONDITION.at(node.span, message, help=help))
        return None
    known = {
        part_name(loss.name, name): loss.part(name)
        for loss in losses
        for name in (*loss.terms, *loss.metrics, *loss.each)
    }
    if metric.path not in known:
        span = node.span_of(metric.start, metric.end)
        help = suggestion(metric.path, known) or f"there are {', '.join(f'`{one}`' for one in known)}"
        sink.add(forms.NO_CONDITION.at(span, f"no loss has a metric `{metric.path}` here", help=help))
        return None
    name = known[metric.path]
    fact = Fact(
        f"max_{name}", "float", f"the passes over a batch end where `{name}` of an update is above it"
    )
    setting = numbers.argument(node, operands[1], fact)
    return None if setting is None else Until(name, setting)
