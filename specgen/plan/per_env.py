"""Parameters that differ between environments: how the constructor reads them, and what fills them at reset."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import Parameter
from specgen.literals import literal
from specgen.plan.env_model import ParamPlan
from specgen.plan.model import Field
from specgen.plan.short_texts import TORCH_DTYPES

_KEYWORDS = {">=": "at_least", "<=": "at_most", ">": "above", "<": "below"}


def record_fields(params: Iterable[Parameter]) -> tuple[Field, ...]:
    """The fields of the record that holds the parameters; those without a default come first."""
    fields = [_record_field(param) for param in params]
    return tuple(sorted(fields, key=lambda field: field.default is not None))


def _record_field(param: Parameter) -> Field:
    if param.entry is None:
        return Field(param.name, param.annotation, literal(param.default), param.doc)
    if param.draw is None:
        return Field(param.name, "Tensor", None, param.doc)
    return Field(param.name, "Tensor | None", "None", param.doc)


def param_plan(param: Parameter) -> ParamPlan:
    """A parameter, as the constructor of a generated class takes it and reads it into the record."""
    limits = tuple((_KEYWORDS[sign], bound) for sign, bound in param.range)
    if param.entry is None:
        return ParamPlan(param.name, param.annotation, param.default, limits)
    return ParamPlan(
        param.name,
        param.annotation,
        param.default,
        limits,
        param.entry.spec.type().shape,
        TORCH_DTYPES[param.entry.spec.dtype],
        param.draw is not None,
    )


def param_doc(param: Parameter) -> str:
    """A parameter in the `Args:` section of a class."""
    limits = "".join(f", {sign} {bound:g}" for sign, bound in param.range)
    if param.entry is None:
        return f"{param.name}: {param.doc or param.annotation} (default {literal(param.default)}{limits})"
    what = "a number, or a tensor that broadcasts to (*batch"
    dims = "".join(f", {size}" for size in param.entry.spec.dims)
    start = (
        f"drawn at each reset from {' '.join(param.draw.source.text.split())}"
        if param.draw is not None
        else f"default {literal(param.default)}"
    )
    return f"{param.name}: {param.doc or 'differs between environments'} ({start}{limits}; {what}{dims}))"
