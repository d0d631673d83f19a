"""A checked loss as one pure function of named tensors and a thin class around it."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.loss_model import CheckedLoss
from specgen.check.model import Checked, Parameter
from specgen.check.programs.loss import loss_component
from specgen.code import Code, named, using
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.plan.docs import hanging
from specgen.plan.functions import plan_function
from specgen.plan.items import Item
from specgen.plan.loss_class import loss_class
from specgen.plan.loss_parts import LossParts
from specgen.plan.model import DataPlan, Field, FunctionPlan, RecordPlan
from specgen.plan.per_env import param_annotation
from specgen.plan.typed_keys import data_class
from specgen.program.program import Program


def plan_loss(checked: Checked[CheckedLoss]) -> list[Item]:
    """Plan a loss: the record of its terms, its pure function, its class, and the type of what it returns."""
    loss = checked.value
    terms = loss_component(loss).phases["terms"]
    parts = _parts(loss, terms)
    return [_terms_record(loss), _function(loss, parts, terms), loss_class(loss, parts), _output(loss)]


def _parts(loss: CheckedLoss, terms: Program) -> LossParts:
    """What the pure function takes."""
    given = {one.symbol for one in terms.inputs}
    return LossParts(
        function=terms.name,
        values=tuple(made for made in loss.forward if made.symbol in given),
        roles=tuple(role for role in loss.roles if loss.symbols.get(f"keys.{role.name}") in given),
        params=tuple(param for param in loss.params if loss.symbols[f"params.{param.name}"] in given),
        learnables=tuple(one for one in loss.learnables if one.symbol in given),
        estimates=any(one.kind == "function" for one in terms.inputs),
    )


def _terms_record(loss: CheckedLoss) -> RecordPlan:
    fields = [
        Field(statement.name, named("Tensor"), doc="[*batch], before the reduction")
        for statement in loss.terms
    ]
    for statement in loss.metrics:
        type = loss.types[statement.target]
        what = _tensor(replace(type, col=False)) if statement.target in loss.each else "to be logged"
        fields.append(
            Field(statement.name, _PYTHON[type.dtype] if type.python else named("Tensor"), doc=what)
        )
    docs = {role.name: role.doc for role in loss.roles}
    for statement in loss.writes:
        fields.append(
            Field(statement.name, named("Tensor"), doc=_joined("[*batch, 1]", docs[statement.target]))
        )
    return RecordPlan(
        f"{loss.name}Terms", ("What the loss is made of, one value per sample.",), tuple(fields)
    )


def _joined(what: str, doc: str) -> str:
    return f"{what}; {doc}" if doc else what


def _function(loss: CheckedLoss, parts: LossParts, terms: Program) -> FunctionPlan:
    annotations = {param.name: param_annotation(param) for param in parts.params}
    for made in parts.values:
        if made.replaced:
            given = ", ".join(["Tensor"] * len(made.replaced))
            annotations[made.name] = using(f"Callable[[{given}], Tensor]", "Callable", "Tensor")
    return replace(plan_function(terms, "", annotations).plan, doc=_doc(loss, parts))


def _doc(loss: CheckedLoss, parts: LossParts) -> tuple[str, ...]:
    lines = [f"The terms of `{loss.name}`, one value per sample.", "", "Args:"]
    for made in parts.values:
        what = _tensor(made.type)
        if made.replaced:
            what = f"{', '.join(f'`{role}`' for role in made.replaced)} to {what}"
        lines += hanging(f"{made.name}: {what}, from `{made.network}`.")
    for role in parts.roles:
        if role.type is not None:
            lines += hanging(f"{role.name}: {_joined(_tensor(role.type), role.doc)}.")
    if parts.estimates:
        lines += hanging(
            "value_estimate: from the value of the next state, [*batch], to the target, [*batch]."
        )
    lines += [line for param in parts.params for line in hanging(f"{param.name}: {_param(param)}")]
    for one in parts.learnables:
        lines += hanging(f"{one.name}: {_joined('float32 []', one.doc)}.")
    return tuple(lines)


def _tensor(type: Type) -> str:
    dims = [*map(str, type.dims or ()), *(["1"] if type.col else [])]
    return f"{type.dtype} [{', '.join([*type.axes, '*batch', *dims])}]"


def _param(param: Parameter) -> str:
    return param.doc or (
        f"one of {', '.join(param.choices)}." if param.choices else f"{param_annotation(param)}."
    )


def _output(loss: CheckedLoss) -> DataPlan:
    keys: dict[Key, Code] = {(s.name,): _SCALARS for s in (*loss.terms, *loss.metrics)}
    return data_class(f"{loss.name}Output", f"What `{loss.name}` returns.", keys)


_SCALARS = using('Float[Tensor, "*batch"]', "Float", "Tensor")
_PYTHON = {"bool": "bool", "int64": "int", "float32": "float", "float64": "float"}
