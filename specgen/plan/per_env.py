"""Parameters that differ between environments: how the constructor reads them, and what fills them at reset."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import Parameter
from specgen.code import Code, named, using, value_code
from specgen.expr.dtypes import CONCRETE
from specgen.literals import literal
from specgen.plan.envs.model import ParamPlan
from specgen.plan.model import Field
from specgen.plan.short_texts import TORCH_DTYPES

LIMITS = {">=": "at_least", "<=": "at_most", ">": "above", "<": "below"}
"""The keywords of what reads a number, by the comparison that must hold of it."""


def chooses_dtype(param: Parameter) -> bool:
    """Whether the words of a parameter are dtypes."""
    return bool(param.choices) and all(word in CONCRETE for word in param.choices)


def param_annotation(param: Parameter) -> Code:
    """What the constructor takes; ``None`` for an optional one not counted."""
    if param.entry is not None:
        return using("ArrayLike" if param.draw is None else "ArrayLike | None", "ArrayLike")
    if param.per_env:
        return named("ArrayLike")
    if param.kind == "enum":
        words = using(f"Literal[{', '.join(map(literal, param.choices))}]", "Literal")
        function = "Callable[[Tensor, Tensor], Tensor]"
        return using(f"{words} | {function}", "Literal", "Callable", "Tensor") if param.or_function else words
    if param.kind == "tensor":
        return named("ArrayLike")
    if param.kind in ("ints", "int_or_ints"):
        return using(("int | " if param.kind == "int_or_ints" else "") + "Sequence[int]", "Sequence")
    return Code("float" if param.kind == "float64" else param.kind)


def argument_annotation(param: Parameter) -> Code:
    """What the constructor takes: for words also a member of their enumeration, for names of dtypes also a dtype."""
    words = param_annotation(param)
    if param.enum_class is not None:
        return using(f"{param.enum_class} | {words}", *words.uses)
    return using(f"torch.dtype | {words}", "torch", *words.uses) if chooses_dtype(param) else words


def kept_annotation(param: Parameter) -> Code:
    """What the class keeps of it."""
    return Code("str") if param.enum_class is not None or chooses_dtype(param) else param_annotation(param)


def optional_annotation(param: Parameter) -> Code:
    """The same, with ``None`` for an optional one."""
    kind = param_annotation(param)
    return using(f"{kind} | None", *kind.uses) if param.optional else kind


def param_of_rows(param: Parameter, size: str, like: str = "") -> str:
    """How a transform reads a parameter of which each row has its own.

    Args:
        param: the parameter.
        size: the text of the batch size of the rows.
        like: the name of a tensor in whose dtype a float is read, if it has floats.
    """
    dtype = f", {like}.dtype" if like and param.kind == "float" else ""
    return f"self._for_rows({literal(param.name)}, {size}{dtype})"


def record_fields(params: Iterable[Parameter]) -> tuple[Field, ...]:
    """The fields of the record that holds the parameters; those without a default come first."""
    fields = [_record_field(param) for param in params]
    return tuple(sorted(fields, key=lambda field: field.default is not None))


def _record_field(param: Parameter) -> Field:
    if param.entry is None:
        return Field(param.name, param_annotation(param), value_code(param.default), param.doc)
    if param.draw is None:
        return Field(param.name, named("Tensor"), None, param.doc)
    return Field(param.name, using("Tensor | None", "Tensor"), "None", param.doc)


def param_plan(param: Parameter) -> ParamPlan:
    """A parameter, as the constructor of a generated class takes it and reads it into the record."""
    limits = tuple((LIMITS[sign], bound) for sign, bound in param.range)
    if param.entry is None:
        return ParamPlan(param.name, param_annotation(param), param.default, limits)
    return ParamPlan(
        param.name,
        param_annotation(param),
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
        return (
            f"{param.name}: {param.doc or param_annotation(param)} (default {literal(param.default)}{limits})"
        )
    what = "a number, or a tensor that broadcasts to (*batch"
    dims = "".join(f", {size}" for size in param.entry.spec.dims)
    start = (
        f"drawn at each reset from {' '.join(param.draw.source.text.split())}"
        if param.draw is not None
        else f"default {literal(param.default)}"
    )
    return f"{param.name}: {param.doc or 'differs between environments'} ({start}{limits}; {what}{dims}))"
