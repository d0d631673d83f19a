"""The imports of a generated module: what the template of each item reads, and what its functions do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from specgen.imported import IMPORTABLE, Import
from specgen.plan.env_model import EntryPlan, EnvironmentPlan, SpecsPlan
from specgen.plan.items import Item, TypingPlan
from specgen.plan.loss_model import LossPlan
from specgen.plan.model import (
    AliasPlan,
    CallPlan,
    DataPlan,
    Field,
    FunctionPlan,
    KeyedType,
    ProtocolPlan,
    RecordPlan,
    SpecTypesPlan,
)
from specgen.plan.spec_text import has_infinity
from specgen.plan.transform_model import TransformPlan

_WORD = re.compile(r"(?<![\w.\"'])[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def imports_of(items: Iterable[Item], further: Mapping[str, Import] | None = None) -> frozenset[Import]:
    """The imports that `items` need.

    Args:
        items: everything that stands in the module.
        further: names from other generated modules.
    """
    known = {**IMPORTABLE, **(further or {})}
    items = list(items)
    own = {item.name for item in items}
    used: set[str] = set()
    typing_only: set[str] = set()
    for item in items:
        (typing_only if isinstance(item, TypingPlan) else used).update(names_read(item))
        if isinstance(item, TypingPlan):
            used.add("TYPE_CHECKING")
        if isinstance(item, DataPlan):
            used.add("TensorDict")
    return frozenset(
        [known[name] for name in used - own if name in known]
        + [replace(known[name], typing_only=True) for name in typing_only - own if name in known]
    )


def names_read(item: Item) -> Iterator[str]:
    """The names that the text of an item reads, its own among them."""
    match item:
        case AliasPlan():
            yield item.record
        case RecordPlan():
            yield "NamedTuple"
            yield from _fields(item.fields)
        case FunctionPlan():
            yield from _function(item)
        case ProtocolPlan():
            yield from ("Protocol", "abstractmethod")
            for method in item.methods:
                yield from _function(method)
        case EnvironmentPlan():
            yield from _environment(item)
        case TransformPlan():
            yield from _transform(item)
        case LossPlan():
            yield from _loss(item)
        case DataPlan():
            yield from ("TypedTensorDict", "Literal", *([] if item.within else ["Never"]))
            yield from _keyed(item.types)
        case SpecTypesPlan():
            yield from ("KeyTypes", "Literal", *([] if all(item.keys) else ["NestedKey"]))
            for base, types in item.bases:
                yield base
                yield from _keyed(types)


def _words(*texts: str | None) -> Iterator[str]:
    """The names that code reads, and parts of its keywords; texts in quotes are left out."""
    for text in texts:
        if text is not None:
            yield from _WORD.findall(_STRING.sub('""', text))


def _function(plan: FunctionPlan) -> Iterator[str]:
    yield from _words(plan.returns, *(line.text for line in plan.body))
    for argument in (*plan.args, *plan.keyword_only):
        yield from _words(argument.annotation, argument.default)


def _fields(fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        yield from _words(field.annotation, field.default)


def _value(plan: str | CallPlan | None) -> Iterator[str]:
    if isinstance(plan, CallPlan):
        yield plan.function


def _keyed(types: Iterable[KeyedType]) -> Iterator[str]:
    for type in types:
        yield from _words(type.value)


def _environment(plan: EnvironmentPlan) -> Iterator[str]:
    yield from ("Any", "Composite", "DEVICE_TYPING", "Entries", "EnvSpecs", "Tensor", "torch")
    stateful = plan.python is not None and plan.python.stateful
    if (plan.gym is None and not stateful) or (plan.gym is not None and plan.gym.lift is not None):
        yield "Sequence"
    if plan.groups:
        yield "ClassVar"
    yield from _params(plan)
    for consts in plan.consts:
        yield consts.record
        if has_infinity([table.value for table in consts.tables]):
            yield "math"
    if plan.constants is not None:
        record, call = plan.constants
        yield record
        yield from _value(call)
    for specs in (plan.specs, *([plan.inner_specs[1]] if plan.inner_specs is not None else [])):
        yield from _specs(specs)
    yield from (plan.root, plan.next)
    for call in (plan.fresh, plan.advance):
        yield from _value(call)
    for entries in (plan.root_entries, plan.next_entries):
        for _, call in entries.computed:
            yield from _value(call)
        yield from _entries(entries.entries)
    for method in plan.methods:
        yield from _function(method)
    if plan.gym is not None:
        yield "GeneratedGymEnv"
    elif plan.python is not None:
        env = plan.python.env
        yield from ("GeneratedPythonEnv", "Callable", plan.python.form)
        yield from (f"{env}{kind}" for kind in ("Protocol", "Reset", "Step", "Setup"))
        for _, made in plan.python.setup:
            yield from _value(made)
    else:
        yield "GeneratedEnv"


def _entries(entries: Iterable[EntryPlan]) -> Iterator[str]:
    for entry in entries:
        yield from _value(entry.value)
        yield from _entries(entry.group)


def _params(plan: EnvironmentPlan) -> Iterator[str]:
    if plan.params_record is not None:
        yield plan.params_record
    for param in plan.params:
        yield from _words(param.annotation)
        if has_infinity([param.default, *(bound for _, bound in param.limits)]):
            yield "math"


def _specs(plan: SpecsPlan) -> Iterator[str]:
    codes = [code for _, code in plan.flags]
    for group in (plan.action, plan.observation, plan.reward):
        codes += group.leaves
    for code in codes:
        yield code.cls
        if code.infinite:
            yield "math"


def _transform(plan: TransformPlan) -> Iterator[str]:
    yield "GeneratedTransform" if plan.around is None else plan.around.base
    yield from _words(*plan.rows)
    for method in () if plan.around is None else plan.around.methods:
        yield from _words(method.returns, *(argument.annotation for argument in method.args))
        yield from _value(method.call)
    for argument in plan.args:
        yield from _words(argument.annotation, argument.default)
    if plan.names:
        yield "leaf_name"
    for param in plan.params:
        if param.tensor:
            yield from ("Tensor", "as_float_tensor")
        for limit in param.limits:
            yield from _words(limit.condition)
    for binding in plan.bindings:
        yield "EnvBase"
        yield from _words(*binding.args)
        for output in binding.outputs:
            yield from _value(output.made)
    if plan.added_specs is not None:
        yield from ("NestedKey", "TensorSpec")
        for _, outputs in plan.added_specs.groups:
            for _, spec in outputs:
                yield from _value(spec)
                yield from _words(*spec.args)
    for phase in (plan.reset, plan.step):
        if phase is not None:
            yield "TensorDictBase"
            for block in phase.blocks:
                yield from _value(block.call)
    for moment in (plan.map, plan.inverse):
        if moment is not None:
            yield from ("Tensor", "TensorDictBase", "TensorSpec")
            yield from (moment.call.function, moment.spec.function)
            yield from _words(*moment.spec.args)


def _loss(plan: LossPlan) -> Iterator[str]:
    yield from ("Any", "ClassVar", "LossModule", "NestedKey", "Reduction", "TYPE_CHECKING", "Tensor")
    yield from ("TensorDict", "TensorDictBase", "TensorDictModuleBase", "TensorDictParams")
    yield from ("dataclass", "nn", "overload", "Literal")
    if plan.estimator is not None:
        yield "ValueEstimators"
    if plan.actions:
        yield from ("ActionSpace", "ActionSpaceName", "TensorSpec", "qvalue_network")
    for param in plan.params:
        yield from _words(param.annotation)
    for refusal in plan.refusals:
        yield from _words(refusal.condition)
    if any(after for _, after in plan.in_keys):
        yield "next_key"
    yield from _words(*(line.text for line in plan.values))
    yield from _words(*(value for _, value in plan.returns))
    yield plan.call.function
    yield from _words(*plan.call.args)
