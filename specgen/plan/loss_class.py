"""The thin class around the pure function of a loss."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.loss_model import (
    Alias,
    CheckedLoss,
    Choice,
    LossRole,
    NetworkCall,
    NetworkValue,
)
from specgen.check.model import Parameter, Statement, identifier
from specgen.check.programs.loss import negated
from specgen.expr import Typed
from specgen.literals import formatted, listed, literal
from specgen.plan.docs import hanging, summary, wrapped
from specgen.plan.loss_parts import LossParts
from specgen.plan.model import Argument, ClassPlan, FunctionPlan, Line
from specgen.plan.spec_text import key_text
from specgen.program.torch_text import print_expression

_ESTIMATORS = {"td0": "TD0"}
_TENSORDICT = Argument("tensordict", "TensorDictBase")
_OVERRIDE = "  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]"


def loss_class(loss: CheckedLoss, parts: LossParts) -> ClassPlan:
    """The `LossModule` subclass."""
    return ClassPlan(
        loss.name,
        ("LossModule",),
        tuple(_doc(loss)),
        tuple(_attributes(loss)),
        (_init(loss), _in_keys(loss, parts), _forward(loss, parts)),
        tuple(_typing_only(loss)),
    )


def _doc(loss: CheckedLoss) -> Iterator[str]:
    yield from wrapped(_what(loss))
    yield ""
    yield "Keys, by the name that `set_keys` takes:"
    for role in loss.roles:
        key = ("next", *role.key) if role.after else role.key
        text = key[0] if len(key) == 1 else literal(key)
        yield from hanging(f"{role.name}: {text}" + (f"; {role.doc}" if role.doc else ""))


def _init_doc(loss: CheckedLoss) -> Iterator[str]:
    yield from summary(_what(loss))
    yield ""
    yield "Args:"
    for network in loss.networks:
        yield from hanging(f"{network.name}: {network.doc or f'writes `{network.output}`.'}")
    for param in loss.params:
        limits = "".join(f", {sign} {bound:g}" for sign, bound in param.range)
        yield from hanging(
            f"{param.name}: {param.doc or param.annotation} Defaults to {literal(param.default)}{limits}."
        )
    if _actions(loss):
        yield from hanging(
            'action_space: how actions are stored, "one-hot", "categorical" or their spec; by default what the '
            "network says."
        )
    yield from hanging(
        'reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults to "mean".'
    )
    yield from hanging(
        'use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the data '
        "hold weights."
    )
    yield ""
    yield "Raises:"
    yield from hanging("TypeError: if a network is not a module.")
    yield from hanging(
        "ValueError: if a keyword has a value that it does not take, or they contradict each other."
    )


def _what(loss: CheckedLoss) -> str:
    return loss.doc or f"The loss `{loss.name}`."


def _attributes(loss: CheckedLoss) -> Iterator[str]:
    yield "@dataclass"
    yield "class _AcceptedKeys(LossModule._AcceptedKeys):  # pyright: ignore[reportPrivateUsage]"
    for role in loss.roles:
        yield f"    {role.name}: NestedKey = {key_text(role.key)}"
    yield ""
    if loss.estimator is not None:
        member = f"ValueEstimators.{_ESTIMATORS[loss.estimator]}"
        yield f"default_value_estimator = {member}"
        yield f"supported_value_estimators = ({member},)"
    names = [statement.name for statement in (*loss.terms, *loss.metrics)]
    yield f"out_keys: ClassVar[list[str]] = {literal(names)}"
    yield ""
    for network in loss.networks:
        yield f"{network.name}: TensorDictModuleBase"
        yield f"{network.name}_params: TensorDictParams"
        if network.target is not False:
            yield f"target_{network.name}_params: TensorDictParams"
    for param in loss.params:
        yield f"{param.name}: {param.annotation}"
    if _actions(loss):
        yield "action_space: ActionSpace"


def _init(loss: CheckedLoss) -> FunctionPlan:
    lines = [Line("super().__init__()")]
    for param in loss.params:
        lines += [Line(text) for text in _checks(param)]
    for requirement in loss.require:
        broken = _python(negated(requirement.condition.typed))
        lines.append(Line(f"if {broken}:\n    raise ValueError({literal(requirement.message)})"))
    lines += [Line(f"self.{param.name} = {param.name}") for param in loss.params]
    lines.append(Line("self.reduction = reduction"))
    lines.append(Line("self.use_prioritized_weights = use_prioritized_weights"))
    for network in loss.networks:
        source = network.name
        if network.action is not None:
            source = "network"
            lines.append(Line(f"network, self.action_space = qvalue_network({network.name}, action_space)"))
        target = str(network.target)
        name = literal(network.name)
        lines.append(Line(f"self.convert_to_functional({source}, {name}, create_target_params={target})"))
    keywords = [Argument(param.name, param.annotation, _default(param)) for param in loss.params]
    if _actions(loss):
        keywords.append(Argument("action_space", "ActionSpaceName | TensorSpec | None", "None"))
    keywords.append(Argument("reduction", "Reduction | None", "None"))
    keywords.append(Argument("use_prioritized_weights", 'Literal["auto"] | bool', '"auto"'))
    args = tuple(Argument(network.name, "nn.Module") for network in loss.networks)
    return FunctionPlan(
        "__init__", args, "None", tuple(_init_doc(loss)), tuple(lines), tuple(keywords), method=True
    )


def _checks(param: Parameter) -> Iterator[str]:
    if param.choices:
        said = formatted(f"{param.name} must be one of {listed(param.choices)}, got ", f"{param.name}!r")
        yield f"if {param.name} not in {literal(param.choices)}:\n    raise ValueError({said})"
    for sign, bound in param.range:
        limit = literal(bound)
        said = formatted(f"{param.name} must be {sign} {limit}, got ", param.name)
        yield f"if not {param.name} {sign} {limit}:\n    raise ValueError({said})"


def _in_keys(loss: CheckedLoss, parts: LossParts) -> FunctionPlan:
    read = [_key(role) for role in loss.roles if role.after or role in parts.roles]
    lines = ["keys = self.tensor_keys", f"return [*super().in_keys, {', '.join(read)}]"]
    return FunctionPlan(
        "in_keys",
        (),
        "list[NestedKey]",
        ("What the loss reads; what its keywords are called when it is called with tensors.",),
        tuple(map(Line, lines)),
        method=True,
        decorators=("property",),
    )


def _forward(loss: CheckedLoss, parts: LossParts) -> FunctionPlan:
    lines = [Line("keys = self.tensor_keys")]
    after = any(role.after for role in parts.roles)
    if after or any("next" in _records(made.value) for made in loss.forward):
        lines.append(Line("next_tensordict = self._next(tensordict)"))
    lines += [Line(f"{n.name} = self.functional_network({literal(n.name)})") for n in loss.networks]
    outputs = {network.name: network.output for network in loss.networks}
    for made in loss.forward:
        lines.append(Line(f"{made.name} = {_value(made.value, outputs)}", made.path))
    call = [f"{made.name}" for made in parts.values]
    call += [_read(loss, role) for role in parts.roles]
    if parts.estimates:
        call.append("self._value_estimate(tensordict)")
    call += [f"{param.name}=self.{param.name}" for param in parts.params]
    lines.append(Line(f"terms = {parts.function}({', '.join(call)})"))
    lines += [Line(f"self._write(tensordict, keys.{s.target}, terms.{s.name})") for s in loss.writes]
    entries = [f"{literal(s.name)}: self._reduce_loss(terms.{s.name}, tensordict)" for s in loss.terms]
    entries += [f"{literal(s.name)}: {_metric(loss, s)}" for s in loss.metrics]
    lines.append(Line(f"return TensorDict({{{', '.join(entries)}}})"))
    writes = ", ".join(f"`{s.target}`" for s in loss.writes)
    doc = (
        "Compute the loss of a batch" + (f", and write {writes} into it." if writes else "."),
        "",
        "Raises:",
        "    KeyError: if something that the loss reads is missing.",
    )
    return FunctionPlan("forward", (_TENSORDICT,), "TensorDictBase", doc, tuple(lines), method=True)


def _value(value: NetworkValue, outputs: dict[str, str]) -> str:
    match value:
        case NetworkCall():
            record = "tensordict" if value.record == "now" else "next_tensordict"
            return f"{value.network}.{value.variant}({record}, keys.{outputs[value.network]})"
        case Alias():
            return identifier(value.name)
        case Choice():
            assert value.typed is not None
            chosen = _python(value.typed, "self.")
            then, otherwise = _value(value.then, outputs), _value(value.otherwise, outputs)
            return f"{then} if {chosen} else {otherwise}"


def _records(value: NetworkValue) -> set[str]:
    match value:
        case NetworkCall():
            return {value.record}
        case Alias():
            return set()
        case Choice():
            return _records(value.then) | _records(value.otherwise)


def _read(loss: CheckedLoss, role: LossRole) -> str:
    record = "next_tensordict" if role.after else "tensordict"
    text = f"self._read({record}, keys.{role.name}, {literal(role.name)})"
    network = next((n for n in loss.networks if n.action == role.name), None)
    if network is None:
        return text
    values = next(made.name for made in loss.forward if made.network == network.name)
    return f"action_index({text}, {values}, self.action_space)"


def _metric(loss: CheckedLoss, statement: Statement) -> str:
    type = loss.types[statement.target]
    return (
        f"terms.{statement.name}.mean()"
        if type.level == "batch"
        else f"torch.as_tensor(terms.{statement.name})"
    )


def _typing_only(loss: CheckedLoss) -> Iterator[str]:
    keys = ", ".join(f"{role.name}: NestedKey | None = ..." for role in loss.roles)
    returns = "Tensor" if len(loss.terms) + len(loss.metrics) == 1 else "tuple[Tensor, ...]"
    yield "@property"
    yield f"def tensor_keys(self) -> {loss.name}._AcceptedKeys: ..."
    # The comment stays on the line of the name, where type checkers look for it, when the formatter wraps the rest.
    yield f"def set_keys({_OVERRIDE}\n    self, *, {keys}) -> None: ..."
    yield "@overload"
    yield f"def __call__(self, tensordict: TensorDictBase, /) -> {loss.name}Output: ..."
    yield "@overload"
    yield f"def __call__(self, **inputs: Tensor) -> {returns}: ..."
    yield "def __call__(self, *args: Any, **inputs: Any) -> Any: ..."


def _key(role: LossRole) -> str:
    return f"next_key(keys.{role.name})" if role.after else f"keys.{role.name}"


def _actions(loss: CheckedLoss) -> bool:
    return any(network.action is not None for network in loss.networks)


def _default(param: Parameter) -> str:
    return literal(param.default)


def _python(condition: Typed, owner: str = "") -> str:
    """A condition on parameters as a Python expression; they are names, or attributes of `owner`."""
    return print_expression(condition, lambda symbol: f"{owner}{symbol.name}")
