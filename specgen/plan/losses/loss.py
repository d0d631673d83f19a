"""A checked loss as one pure function of named tensors and a thin class around it."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.losses.conditions import condition_text
from specgen.check.losses.forward import Bernoulli, Forward
from specgen.check.losses.model import CheckedLoss
from specgen.check.model import Checked, Parameter, Statement, identifier
from specgen.check.programs.loss import has_network, loss_terms, random_network
from specgen.code import Code, named, using
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.plan.docs import hanging
from specgen.plan.functions import plan_function
from specgen.plan.items import Item
from specgen.plan.losses.coefficients import read_annotation
from specgen.plan.losses.loss_class import loss_class
from specgen.plan.losses.modules import PROTOCOLS
from specgen.plan.losses.needs import needs_of_forward
from specgen.plan.losses.parts import LossParts
from specgen.plan.model import DataPlan, Field, FunctionPlan, RecordPlan
from specgen.plan.per_env import param_annotation
from specgen.plan.typed_keys import data_class
from specgen.program.conditions import ALWAYS, Condition, condition_of
from specgen.program.guards import Guarded
from specgen.program.program import Program


def plan_loss(checked: Checked[CheckedLoss]) -> list[Item]:
    """Plan a loss: the record of its terms, its pure function, its class, and the type of what it returns."""
    loss = checked.value
    terms = loss_terms(loss)
    parts = _parts(loss, terms)
    return [
        _terms_record(loss),
        _function(loss, parts, terms.program),
        loss_class(loss, parts),
        _output(loss),
    ]


def _parts(loss: CheckedLoss, guarded: Guarded) -> LossParts:
    """What the pure function takes."""
    terms = guarded.program
    given = {one.symbol for one in terms.inputs}
    path = f"losses.{loss.name}"
    return LossParts(
        function=terms.name,
        values=tuple(made for made in loss.forward if made.symbol in given),
        roles=tuple(role for role in loss.roles if loss.symbols.get(f"keys.{role.name}") in given),
        params=tuple(param for param in loss.params if loss.symbols[f"params.{param.name}"] in given),
        bounds=tuple(one for one in loss.bounds if one in given),
        learnables=tuple(one for one in loss.learnables if one.symbol in given),
        modules=tuple(one for one in loss.modules if one.symbol in given),
        networks=tuple(one for one in loss.networks if has_network(path, one) in given),
        plain=tuple(one for one in loss.networks if one.certain and random_network(path, one) in given),
        needs=needs_of_forward(loss, guarded.needs),
        masked=any(one.symbol.path == f"{path}.given.mask" for one in terms.inputs),
        estimates=any(one.kind == "function" for one in terms.inputs),
    )


def _terms_record(loss: CheckedLoss) -> RecordPlan:
    fields = [
        Field(statement.name, _there(loss, statement, named("Tensor")), doc=_term_doc(loss, statement))
        for statement in loss.terms
    ]
    if loss.mask is not None:
        fields.append(Field("mask", named("Tensor"), doc="bool [*batch], which samples count"))
    for term in loss.masks:
        kind = using("Tensor | None", "Tensor") if term in loss.when else named("Tensor")
        fields.append(
            Field(f"{identifier(term)}_mask", kind, doc="bool [*batch], which samples count for it")
        )
    for statement in loss.metrics:
        type = loss.types[statement.target]
        what = _tensor(replace(type, col=False)) if statement.target in loss.each else "to be logged"
        kind = Code(_PYTHON[type.dtype]) if type.python else named("Tensor")
        fields.append(
            Field(statement.name, _there(loss, statement, kind), doc=what + _unless(loss, statement))
        )
    docs = {role.name: role.doc for role in loss.roles}
    for statement in loss.writes:
        fields.append(
            Field(statement.name, named("Tensor"), doc=_joined("[*batch, 1]", docs[statement.target]))
        )
    return RecordPlan(
        f"{loss.name}Terms", ("What the loss is made of, one value per sample.",), tuple(fields)
    )


def _there(loss: CheckedLoss, statement: Statement, kind: Code) -> Code:
    """The type of an output: one under a condition may be None."""
    return using(f"{kind} | None", *kind.uses) if statement.target in loss.when else kind


def _term_doc(loss: CheckedLoss, statement: Statement) -> str:
    type = loss.types[statement.target]
    dims = "".join(f", {size}" for size in type.dims)
    return f"[*batch{dims}], before the reduction{_unless(loss, statement)}"


def _unless(loss: CheckedLoss, statement: Statement) -> str:
    condition = loss.when.get(statement.target)
    return "" if condition is None else f"; None unless {condition_text(condition_of(condition))}"


def _joined(what: str, doc: str) -> str:
    return f"{what}; {doc}" if doc else what


def _function(loss: CheckedLoss, parts: LossParts, terms: Program) -> FunctionPlan:
    annotations = {param.name: read_annotation(loss, param) for param in parts.params}
    annotations["mask"] = using("Tensor | None", "Tensor")
    for made in parts.values:
        kind = named("Tensor")
        if made.replaced:
            given = ", ".join(["Tensor"] * len(made.replaced))
            kind = using(f"Callable[[{given}], Tensor]", "Callable", "Tensor")
        annotations[made.name] = _or_none(kind, parts.needed(made.symbol) != ALWAYS)
    for role in parts.roles:
        absent = role.optional or parts.needed(loss.symbols[f"keys.{role.name}"]) != ALWAYS
        annotations[role.name] = _or_none(named("Tensor"), absent)
    for one in parts.learnables:
        annotations[one.name] = _or_none(named("Tensor"), parts.needed(one.symbol) != ALWAYS)
    for module in parts.modules:
        absent = module.optional or parts.needed(module.symbol) != ALWAYS
        annotations[module.name] = _or_none(named(PROTOCOLS[module.protocol]), absent)
    return replace(plan_function(terms, "", annotations).plan, doc=_doc(loss, parts))


def _or_none(kind: Code, absent: bool) -> Code:
    return using(f"{kind} | None", *kind.uses) if absent else kind


def _needed(condition: Condition) -> str:
    return "" if condition == ALWAYS else f"; needed where {condition_text(condition)}"


def _doc(loss: CheckedLoss, parts: LossParts) -> tuple[str, ...]:
    lines = [f"The terms of `{loss.name}`, one value per sample.", "", "Args:"]
    for made in parts.values:
        what = _tensor(made.type)
        if made.replaced:
            what = f"{', '.join(f'`{role}`' for role in made.replaced)} to {what}"
        lines += hanging(f"{made.name}: {what}, {_origin(made)}{_needed(parts.needed(made.symbol))}.")
    for role in parts.roles:
        if role.type is not None:
            needed = _needed(parts.needed(loss.symbols[f"keys.{role.name}"]))
            lines += hanging(f"{role.name}: {_joined(_tensor(role.type), role.doc)}{needed}.")
    if parts.masked:
        lines += hanging("mask: bool [*batch], which samples count in statistics of the batch; None: all.")
    if parts.estimates:
        lines += hanging(
            "value_estimate: from the value of the next state, [*batch], to the target, [*batch]."
        )
    for module in parts.modules:
        lines += hanging(f"{module.name}: {module.doc or f'a `{PROTOCOLS[module.protocol]}`.'}")
    for network in parts.networks:
        lines += hanging(f"has_{network.name}: whether `{network.name}` was given.")
    for network in parts.plain:
        lines += hanging(f"random_{network.name}: whether `{network.name}` gives a distribution.")
    lines += [line for param in parts.params for line in hanging(f"{param.name}: {_param(param)}")]
    for bound in parts.bounds:
        shape = ", ".join(map(str, bound.type.dims))
        lines += hanging(f"{bound.name}: {bound.type.dtype} [{shape}].")
    for one in parts.learnables:
        lines += hanging(f"{one.name}: {_joined('float32 []', one.doc)}{_needed(parts.needed(one.symbol))}.")
    return tuple(lines)


def _origin(made: Forward) -> str:
    drawn = "drawn" if isinstance(made.value, Bernoulli) else "standard normal numbers"
    return f"from `{made.network}`" if made.network else drawn


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
