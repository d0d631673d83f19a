"""The plan of the thin class around the pure function of a loss."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.loss_model import CheckedLoss, LossNetwork, LossRole
from specgen.check.model import Statement
from specgen.check.programs.loss import negated
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.docs import hanging, summary, wrapped
from specgen.plan.loss_forward import ForwardPrinter, python, records, reparameterized, roles_read
from specgen.plan.loss_learnables import learnable_argument, learnable_plan
from specgen.plan.loss_model import LossParamPlan, LossPlan, NetworkPlan
from specgen.plan.loss_parts import LossParts
from specgen.plan.model import CallPlan, RefusalPlan, Text
from specgen.plan.per_env import param_annotation
from specgen.plan.refusals import refusals

_ESTIMATORS = {"td0": "TD0", "td1": "TD1", "td_lambda": "TDLambda"}


def loss_class(loss: CheckedLoss, parts: LossParts) -> LossPlan:
    """The `LossModule` subclass."""
    after = any(role.after for role in parts.roles)
    forward, inside = ForwardPrinter(loss), roles_read(loss)
    read = (role for role in loss.roles if role.after or role in parts.roles or role.name in inside)
    return LossPlan(
        name=loss.name,
        parent=loss.parent.name if loss.parent is not None else "",
        drops_roles=loss.parent is not None and not loss.parent.roles <= {role.name for role in loss.roles},
        doc=tuple(_doc(loss)),
        init_doc=tuple(_init_doc(loss)),
        forward_doc=_forward_doc(loss),
        roles=tuple((role.name, role.key) for role in loss.roles),
        estimators=tuple(_ESTIMATORS[name] for name in loss.estimators),
        out_keys=[statement.name for statement in (*loss.terms, *loss.metrics)],
        networks=tuple(
            NetworkPlan(
                n.name,
                str(n.target),
                n.target is not False,
                n.action is not None,
                _apart(loss, n),
                n.members,
                n.policy,
                reparameterized(loss, n),
            )
            for n in loss.networks
        ),
        params=tuple(LossParamPlan(p.name, param_annotation(p), p.default) for p in loss.params),
        refusals=tuple(_refusals(loss)),
        learnables=tuple(map(learnable_plan, loss.learnables)),
        in_keys=tuple((role.name, role.after) for role in read),
        reads_next=after or any("next" in records(made.value, loss) for made in loss.forward),
        values=tuple(forward.lines()),
        call=_call(loss, parts, forward),
        writes=tuple((statement.target, statement.name) for statement in loss.writes),
        returns=(
            *((s.name, f"self._reduce_loss(terms.{s.name}, tensordict)") for s in loss.terms),
            *((s.name, _metric(loss, s)) for s in loss.metrics),
        ),
        returned="Tensor" if len(loss.terms) + len(loss.metrics) == 1 else "tuple[Tensor, ...]",
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
        yield from hanging(f"{network.name}: {network.doc or _gives(network)}")
    for param in loss.params:
        limits = "".join(f", {sign} {bound:g}" for sign, bound in param.range)
        yield from hanging(
            f"{param.name}: {param.doc or param_annotation(param)} Defaults to {literal(param.default)}{limits}."
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
    if any(network.policy for network in loss.networks):
        yield from hanging("TypeError: if a network is not a module, or a policy gives no distribution.")
    else:
        yield from hanging("TypeError: if a network is not a module.")
    yield from hanging(
        "ValueError: if a keyword has a value that it does not take, or they contradict each other."
    )


def _gives(network: LossNetwork) -> str:
    return f"{'gives the distribution of' if network.policy else 'writes'} `{network.output}`."


def _what(loss: CheckedLoss) -> str:
    return loss.doc or f"The loss `{loss.name}`."


def _forward_doc(loss: CheckedLoss) -> tuple[str, ...]:
    writes = ", ".join(f"`{s.target}`" for s in loss.writes)
    return (
        "Compute the loss of a batch" + (f", and write {writes} into it." if writes else "."),
        "",
        "Raises:",
        "    KeyError: if something that the loss reads is missing.",
    )


def _refusals(loss: CheckedLoss) -> Iterator[RefusalPlan]:
    for param in loss.params:
        yield from refusals(param)
    for requirement in loss.require:
        broken = python(negated(requirement.condition.typed))
        yield RefusalPlan(broken, literal(requirement.message))


def _call(loss: CheckedLoss, parts: LossParts, forward: ForwardPrinter) -> CallPlan:
    args: list[Text] = [forward.argument(made) for made in parts.values]
    args += [_read(loss, role) for role in parts.roles]
    if parts.estimates:
        args.append("self._value_estimate(tensordict)")
    args += [f"{param.name}=self.{param.name}" for param in parts.params]
    args += map(learnable_argument, parts.learnables)
    return CallPlan(parts.function, tuple(args))


def _read(loss: CheckedLoss, role: LossRole) -> Code:
    record = "next_tensordict" if role.after else "tensordict"
    text = f"self._read({record}, keys.{role.name}, {literal(role.name)})"
    network = next((n for n in loss.networks if n.action == role.name), None)
    if network is None:
        return Code(text)
    values = next(made.name for made in loss.forward if made.network == network.name)
    one = f"{values}[0]" if network.members else values
    return using(f"action_index({text}, {one}, self.action_space)", "action_index")


def _apart(loss: CheckedLoss, network: LossNetwork) -> str:
    """The parameters that other networks train, as an expression; empty where there are none."""
    before = loss.networks[: loss.networks.index(network)]
    if network.apart is False or not before:
        return ""
    parameters = [
        f"self.shared_by_members({one.name})" if one.members else f"{one.name}.parameters()" for one in before
    ]
    text = parameters[0] if len(parameters) == 1 else f"[{', '.join(f'*{each}' for each in parameters)}]"
    return text if network.apart is True else f"{text} if {network.apart} else None"


def _metric(loss: CheckedLoss, statement: Statement) -> Code:
    if statement.target in loss.each:
        return Code(f"terms.{statement.name}")
    if loss.types[statement.target].level == "batch":
        return Code(f"terms.{statement.name}.mean()")
    return using(f"torch.as_tensor(terms.{statement.name})", "torch")


def _actions(loss: CheckedLoss) -> bool:
    return any(network.action is not None for network in loss.networks)
