"""A checked loss as one pure function of named tensors and a thin class around it."""

from __future__ import annotations

from specgen.check.losses.conditions import condition_text
from specgen.check.losses.forward import Bernoulli, Forward, NetworkBuffer, Noise
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.numbers import ParamRead
from specgen.check.model import Checked, Statement, identifier
from specgen.check.programs.loss import loss_parts
from specgen.code import Code, named, using
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.plan.docs import hanging, wrapped
from specgen.plan.functions import plan_function
from specgen.plan.items import Item
from specgen.plan.losses.coefficients import read_annotation, updated
from specgen.plan.losses.facts import tensor_text
from specgen.plan.losses.loss_class import loss_class
from specgen.plan.losses.methods import given_methods, has_function
from specgen.plan.losses.modules import PROTOCOLS
from specgen.plan.losses.parts import PartArguments, part_arguments
from specgen.plan.model import DataPlan, Field, FunctionPlan, RecordPlan
from specgen.plan.per_env import param_annotation
from specgen.plan.typed_keys import data_class
from specgen.program.conditions import ALWAYS, Condition
from specgen.values import dataclass, replace


def plan_loss(checked: Checked[CheckedLoss]) -> list[Item]:
    """Plan a loss: the records of its terms, its pure functions, its class, and the type of what it returns."""
    loss = checked.value
    found = loss_parts(loss)
    parts = [part_arguments(loss, part, alone=len(found) == 1) for part in found]
    methods = given_methods(loss)
    return [
        *(item for part in parts for item in (_terms_record(loss, part), _function(loss, part))),
        *(_function(loss, part) for part in methods.values() if has_function(part)),
        loss_class(loss, parts, methods),
        _output(loss),
    ]


def _terms_record(loss: CheckedLoss, part: PartArguments) -> RecordPlan:
    there = [_there(loss, part, statement) for statement in part.of(loss.terms)]
    fields = [
        Field(one.name, one.kind(named("Tensor")), doc=f"{_term_doc(loss, statement)}{one.unless}")
        for one, statement in zip(there, part.of(loss.terms), strict=True)
    ]
    names = {output.name for output in part.part.program.outputs}
    if "mask" in names:
        fields.append(Field("mask", named("Tensor"), doc="bool [*batch], which samples count"))
    for statement in part.of(loss.terms):
        name = f"{identifier(statement.target)}_mask"
        if name in names:
            kind = _there(loss, part, statement).kind(named("Tensor"))
            fields.append(Field(name, kind, doc="bool [*batch], which samples count for it"))
    for statement in part.of(loss.metrics):
        type, one = loss.types[statement.target], _there(loss, part, statement)
        kept = statement.target in {*loss.each, *loss.by_part}
        what = tensor_text(replace(type, col=False)) if kept else "to be logged"
        fields.append(Field(one.name, one.kind(_number(type)), doc=what + one.unless))
    fields += [
        Field(one.name, _number(loss.types[one.target]), doc=f"[], what `{updated(one)}` becomes")
        for one in part.of(loss.update)
    ]
    docs = {role.name: role.doc for role in loss.roles}
    for statement in part.of(loss.writes):
        doc = _joined("[*batch, 1]", docs[statement.target])
        fields.append(Field(statement.name, named("Tensor"), doc=doc))
    what = "What the loss is made of" if part.alone else f"{part.listed} of `{loss.name}`"
    return RecordPlan(part.record, tuple(wrapped(f"{what}, one value per sample.")), tuple(fields))


def _number(type: Type) -> Code:
    """The type of an output that is one number for the batch, or a tensor."""
    return Code(_PYTHON[type.dtype]) if type.python else named("Tensor")


@dataclass(frozen=True)
class _There:
    """An output, and when it is there, where its part is."""

    name: str
    condition: Condition

    def kind(self, kind: Code) -> Code:
        """Its type: one under a condition may be None."""
        return _or_none(kind, self.condition != ALWAYS)

    @property
    def unless(self) -> str:
        """What its documentation says of that."""
        return "" if self.condition == ALWAYS else f"; None unless {condition_text(self.condition)}"


def _there(loss: CheckedLoss, part: PartArguments, statement: Statement) -> _There:
    return _There(statement.name, part.returned(loss, statement))


def _term_doc(loss: CheckedLoss, statement: Statement) -> str:
    dims = "".join(f", {size}" for size in loss.types[statement.target].dims)
    return f"[*batch{dims}], before the reduction"


def _joined(what: str, doc: str) -> str:
    return f"{what}; {doc}" if doc else what


def _function(loss: CheckedLoss, part: PartArguments) -> FunctionPlan:
    annotations = {
        one.name: read_annotation(one, given=one.symbol in part.there, needed=part.needed(one.symbol))
        for one in part.params
    }
    annotations["mask"] = using("Tensor | None", "Tensor")
    for made in part.values:
        kind = named("Tensor")
        if made.replaced:
            given = ", ".join(["Tensor"] * len(made.replaced))
            kind = using(f"Callable[[{given}], Tensor]", "Callable", "Tensor")
        annotations[made.name] = _or_none(kind, part.needed(made.symbol) != ALWAYS)
    for role in part.roles:
        absent = role.optional or part.needed(loss.symbols[f"keys.{role.name}"]) != ALWAYS
        annotations[role.name] = _or_none(named("Tensor"), absent)
    for one in part.learnables:
        annotations[one.name] = _or_none(named("Tensor"), part.needed(one.symbol) != ALWAYS)
    for module in part.modules:
        absent = (module.optional and module.symbol not in part.there) or part.needed(module.symbol) != ALWAYS
        annotations[module.name] = _or_none(named(PROTOCOLS[module.protocol]), absent)
    return replace(plan_function(part.part.program, "", annotations).plan, doc=_doc(loss, part))


def _or_none(kind: Code, absent: bool) -> Code:
    return using(f"{kind} | None", *kind.uses) if absent else kind


def _needed(condition: Condition) -> str:
    return "" if condition == ALWAYS else f"; needed where {condition_text(condition)}"


def _doc(loss: CheckedLoss, part: PartArguments) -> tuple[str, ...]:
    what = "The terms" if part.alone else part.listed
    lines = [*wrapped(f"{what} of `{loss.name}`, one value per sample."), "", "Args:"]
    for made in part.values:
        what = tensor_text(made.type)
        if made.replaced:
            what = f"{', '.join(f'`{role}`' for role in made.replaced)} to {what}"
        lines += hanging(f"{made.name}: {what}, {_origin(made)}{_needed(part.needed(made.symbol))}.")
    for let in part.lets:
        lines += hanging(f"{let.name}: {tensor_text(let.type)}.")
    for role in part.roles:
        if role.type is not None:
            needed = _needed(part.needed(loss.symbols[f"keys.{role.name}"]))
            lines += hanging(f"{role.name}: {_joined(tensor_text(role.type), role.doc)}{needed}.")
    if part.masked:
        lines += hanging("mask: bool [*batch], which samples count in statistics of the batch; None: all.")
    if part.estimates:
        lines += hanging(
            "value_estimate: from the value of the next state, [*batch], to the target, [*batch]."
        )
    for module in part.modules:
        lines += hanging(f"{module.name}: {module.doc or f'a `{PROTOCOLS[module.protocol]}`.'}")
    for network in part.networks:
        lines += hanging(f"has_{network.name}: whether `{network.name}` was given.")
    for network in part.plain:
        lines += hanging(f"random_{network.name}: whether `{network.name}` gives a distribution.")
    lines += [line for one in part.params for line in hanging(f"{one.name}: {_param(one)}")]
    for bound in part.bounds:
        shape = ", ".join(map(str, bound.type.dims))
        lines += hanging(f"{bound.name}: {bound.type.dtype} [{shape}].")
    for one in part.learnables:
        lines += hanging(f"{one.name}: {_joined('float32 []', one.doc)}{_needed(part.needed(one.symbol))}.")
    return tuple(lines)


def _origin(made: Forward) -> str:
    if made.network:
        return f"from `{made.network}`"
    if isinstance(made.value, Bernoulli):
        return "drawn"
    if isinstance(made.value, NetworkBuffer):
        return f"a buffer of `{made.value.network}`"
    normal = isinstance(made.value, Noise) and made.value.ends is None
    return f"{'standard normal' if normal else 'uniform'} numbers"


def _param(one: ParamRead) -> str:
    param = one.param
    if one.asks:
        return f"whether `{param.name}` was not 0 when the loss was made."
    return param.doc or (
        f"one of {', '.join(param.choices)}." if param.choices else f"{param_annotation(param)}."
    )


def _output(loss: CheckedLoss) -> DataPlan:
    outputs = (*loss.terms, *loss.metrics)
    keys: dict[Key, Code] = {(s.name,): _SCALARS for s in outputs if s.target not in loss.by_part}
    parts: dict[Key, Code] = {(name,): named("TensorDictBase") for name in loss.by_part}
    return data_class(f"{loss.name}Output", f"What `{loss.name}` returns.", keys, parts)


_SCALARS = using('Float[Tensor, "*batch"]', "Float", "Tensor")
_PYTHON = {"bool": "bool", "int64": "int", "float32": "float", "float64": "float"}
