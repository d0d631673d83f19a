"""Parameters that differ between environments: how the constructor reads them, and what fills them at reset."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import Parameter
from specgen.literals import literal
from specgen.plan.model import Field
from specgen.plan.spec_text import number_text
from specgen.plan.writer import TORCH_DTYPES

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


def read_text(param: Parameter) -> str:
    """The expression that gives the record's value for what the constructor was given."""
    limits = "".join(f", {_KEYWORDS[sign]}={number_text(bound)}" for sign, bound in param.range)
    if param.entry is None:
        return f"self._{param.annotation}({literal(param.name)}, {param.name}{limits})"
    shape = literal(param.entry.spec.dims or ())
    dtype = TORCH_DTYPES[param.entry.spec.dtype]
    text = f"self._per_env({literal(param.name)}, {param.name}, {shape}, {dtype}{limits})"
    return text if param.draw is None else f"None if {param.name} is None else {text}"


def param_doc(param: Parameter) -> str:
    """A parameter in the `Args:` section of a class."""
    limits = "".join(f", {sign} {bound:g}" for sign, bound in param.range)
    if param.entry is None:
        return f"{param.name}: {param.doc or param.annotation} (default {literal(param.default)}{limits})"
    what = "a number, or a tensor that broadcasts to (*batch"
    dims = "".join(f", {size}" for size in param.entry.spec.dims or ())
    start = (
        f"drawn at each reset from {' '.join(param.draw.source.text.split())}"
        if param.draw is not None
        else f"default {literal(param.default)}"
    )
    return f"{param.name}: {param.doc or 'differs between environments'} ({start}{limits}; {what}{dims}))"
