"""The plan of the thin class around the pure function of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specgen.check.lints.gradients import Gradients
from specgen.check.losses.forward import Forward
from specgen.check.losses.model import CheckedLoss, LossNetwork, LossRole
from specgen.check.model import Statement
from specgen.check.programs.loss import negated
from specgen.code import Code, using
from specgen.expr.sizes import Rest
from specgen.literals import literal
from specgen.plan.docs import hanging, summary, wrapped
from specgen.plan.losses.coefficients import KEYWORDS, coefficient_plan, needs_of_auto, param_doc, param_plan
from specgen.plan.losses.conditions import condition_code, has, role_symbol, where_needed
from specgen.plan.losses.forward import ForwardPrinter, python, records, reparameterized, roles_read
from specgen.plan.losses.learnables import learnable_plan, learnable_value
from specgen.plan.losses.model import LossPlan, NetworkPlan, ReturnPlan
from specgen.plan.losses.modules import module_docs, module_plans, updates
from specgen.plan.losses.parts import LossParts
from specgen.plan.model import CallPlan, RefusalPlan, Text
from specgen.plan.refusals import refusals
from specgen.program.conditions import ALWAYS, NEVER, condition_of

_ESTIMATORS = {
    "td0": "TD0",
    "td1": "TD1",
    "td_lambda": "TDLambda",
    "gae": "GAE",
    "multi_agent_gae": "MAGAE",
    "vtrace": "VTrace",
}


def loss_class(loss: CheckedLoss, parts: LossParts) -> LossPlan:
    """The `LossModule` subclass."""
    after = any(role.after for role in parts.roles)
    forward, inside = ForwardPrinter(loss, parts.needed), roles_read(loss)
    updating = {one.update for one in loss.modules}
    read = [
        role
        for role in loss.roles
        if role.after or role in parts.roles or role.mask is not None or role.name in (inside | updating)
    ]
    return LossPlan(
        name=loss.name,
        parent=loss.parent.name if loss.parent is not None else "",
        drops_roles=loss.parent is not None
        and not loss.parent.roles <= {role.accepted for role in loss.roles},
        doc=tuple(_doc(loss)),
        init_doc=tuple(_init_doc(loss)),
        forward_doc=_forward_doc(loss),
        roles=tuple({role.accepted: role.key for role in loss.roles}.items()),
        features=tuple(_features(loss)),
        estimators=tuple(_ESTIMATORS[name] for name in loss.estimators),
        value_role=loss.value_role,
        out_keys=[statement.name for statement in (*loss.terms, *loss.metrics)],
        trained=_trained(loss),
        networks=tuple(
            NetworkPlan(
                n.name,
                str(n.target),
                n.target is not False,
                n.action is not None,
                _apart(loss, n),
                n.members,
                n.optional,
                n.policy,
                reparameterized(loss, n),
                n.plain,
                n.trains,
            )
            for n in loss.networks
        ),
        params=tuple(param_plan(loss, param) for param in loss.params),
        refusals=tuple(_refusals(loss)),
        in_keys=(*(_in_key(loss, parts, role) for role in read if not _may_lack(role)), *_next_keys(loss)),
        further_keys=tuple(_in_key(loss, parts, role) for role in read if _may_lack(role)),
        estimated=tuple(_in_key(loss, parts, role) for role in parts.roles if role.missing == "estimate"),
        reads_next=after or any("next" in records(made.value, loss) for made in loss.forward),
        updates=tuple(updates(loss)),
        values=tuple(forward.lines()),
        call=_call(loss, parts, forward),
        keywords=tuple(dict.fromkeys(word for one in loss.domains for word in one.keywords)),
        bounds=tuple((one.role, one.keywords) for one in loss.domains if one.low is not None),
        coefficients=tuple(coefficient_plan(loss, one) for one in loss.coefficients.values()),
        modules=tuple(module_plans(loss)),
        learnables=tuple(learnable_plan(one, loss) for one in loss.learnables),
        writes=tuple((statement.target, statement.name) for statement in loss.writes),
        returns=(
            *(ReturnPlan(s.name, _reduced(loss, s), s.target in loss.when) for s in loss.terms),
            *(ReturnPlan(s.name, _metric(loss, s), s.target in loss.when) for s in loss.metrics),
        ),
        masks=tuple(
            (
                *_mask_of_key(role),
                ("~" if role.mask == "not" else "")
                + role.name
                + (".squeeze(-1)" if role.type is not None and role.type.col else ""),
                role.optional,
            )
            for role in loss.roles
            if role.mask is not None
        ),
        left_out=tuple(
            (s.name, condition_code(loss, condition_of(loss.when[s.target])))
            for s in (*loss.terms, *loss.metrics)
            if s.target in loss.when
        ),
        returned="Tensor" if len(loss.terms) + len(loss.metrics) == 1 else "tuple[Tensor, ...]",
        functional=_can_leave_networks(loss),
        scalars=_has_scalars(loss),
    )


def _features(loss: CheckedLoss) -> Iterator[tuple[str, int]]:
    """The roles whose entries have a known number of dimensions, but those that every loss knows."""
    outputs = {network.output: network.type for network in loss.networks if not network.policy}
    actions = {network.action for network in loss.networks}  # stored as a number or one-hot
    for role in loss.roles:
        type = role.type or outputs.get(role.name)
        if type is None or role.after or role.name in actions:
            continue
        dims = type.dims or ()
        if not any(isinstance(dim, Rest) for dim in dims):
            yield role.accepted, len(dims) + type.col


def _trained(loss: CheckedLoss) -> dict[str, tuple[str, ...]]:
    """The networks and learned numbers that the gradient of each term reaches, in the order of declaration."""
    gradients = Gradients(loss.let, loss.forward)
    names = [*(network.name for network in loss.networks), *(one.name for one in loss.learnables)]
    return {
        term.name: tuple(name for name in names if name in gradients.trained(term.expr))
        for term in loss.terms
    }


def _can_leave_networks(loss: CheckedLoss) -> bool:
    """Whether the loss can work on networks that keep their parameters: no members, and no targets unless asked for."""
    if all(network.plain and not network.policy for network in loss.networks):
        return False  # they are left so in any case
    asked = {param.name for param in loss.params if param.default is False}
    return all(
        network.members is None and (network.target is False or network.target in asked)
        for network in loss.networks
    )


def _has_scalars(loss: CheckedLoss) -> bool:
    return any(metric.target not in loss.each for metric in loss.metrics)


def _doc(loss: CheckedLoss) -> Iterator[str]:
    yield from wrapped(_what(loss))
    yield ""
    for term, names in _trained(loss).items():
        yield from hanging(f"`{term}` trains {', '.join(f'`{name}`' for name in names) or 'nothing'}.")
    yield ""
    yield "Keys, by the name that `set_keys` takes:"
    for role in loss.roles:
        key = ("next", *role.key) if role.after else role.key
        text = key[0] if len(key) == 1 else literal(key)
        yield from hanging(f"{role.accepted}: {text}" + (f"; {role.doc}" if role.doc else ""))


def _init_doc(loss: CheckedLoss) -> Iterator[str]:
    yield from summary(_what(loss))
    yield ""
    yield "Args:"
    for network in loss.networks:
        yield from hanging(f"{network.name}: {network.doc or _gives(network)}")
    for domain in loss.domains:
        for word in domain.keywords:
            yield from hanging(f"{word}: {KEYWORDS[word].format(domain.role)}")
    yield from module_docs(loss)
    for param in loss.params:
        if param.name not in loss.fixed:
            yield from hanging(f"{param.name}: {param_doc(loss, param)}")
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
    if _has_scalars(loss):
        yield from hanging(
            'scalar_output_mode: what becomes of numbers that are one for the batch with the reduction "none": '
            '"exclude" leaves them out, "non_tensor" returns them as data that are no tensors. Defaults to None: as '
            "they are."
        )
    if _can_leave_networks(loss):
        yield from hanging(
            "functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise they are "
            "ordinary children, without targets."
        )
    yield ""
    yield "Raises:"
    policies = (
        ", or a policy gives no distribution"
        if any(one.policy and not one.plain for one in loss.networks)
        else ""
    )
    methods = ", or an object lacks a method" if loss.modules else ""
    yield from hanging(f"TypeError: if a network is not a module{policies}{methods}.")
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
    for param in (one for one in loss.params if one.name not in loss.fixed):
        for refusal in refusals(param):
            if param.optional:
                condition = using(
                    f"{param.name} is not None and {refusal.condition}",
                    *(refusal.condition.uses if isinstance(refusal.condition, Code) else ()),
                )
                refusal = replace(refusal, condition=condition)
            yield refusal
    yield from needs_of_auto(loss)
    for requirement in loss.require:
        broken = python(negated(requirement.condition.typed))
        yield RefusalPlan(broken, literal(requirement.message))


def _call(loss: CheckedLoss, parts: LossParts, forward: ForwardPrinter) -> CallPlan:
    args: list[Text] = [
        where_needed(loss, parts.needed(made.symbol), forward.argument(made))
        if made.replaced
        else forward.argument(made)
        for made in parts.values
    ]
    args += [
        where_needed(loss, parts.needed(loss.symbols[f"keys.{role.name}"]), _read(loss, parts, role))
        for role in parts.roles
    ]
    if parts.masked:
        args.append("self._mask(tensordict)")
    if parts.estimates:
        args.append("self._value_estimate(tensordict)")
    args += [f"{one.name}=self.{one.name}" for one in parts.modules]
    args += [f"has_{network.name}={has(network)}" for network in parts.networks]
    args += [f"random_{one.name}=self.random_{one.name}" for one in parts.plain]
    args += [f"{param.name}=self.{param.name}" for param in parts.params]
    args += [f"{bound.name}=self.{bound.name}" for bound in parts.bounds]
    for one in parts.learnables:
        value = where_needed(loss, parts.needed(one.symbol), learnable_value(one))
        args.append(using(f"{one.name}={value}", *value.uses))
    return CallPlan(parts.function, tuple(args))


def _may_lack(role: LossRole) -> bool:
    """Whether the data may lack what a role reads."""
    return role.optional or role.missing is not None


def _next_keys(loss: CheckedLoss) -> Iterator[Code]:
    """The entries of `in_keys` for what modules of tensors read of the next data."""
    found = roles_read(loss, "next")
    for role in loss.roles:
        if role.name in found:
            yield using(f"next_key(keys.{role.accepted})", "next_key")


def _in_key(loss: CheckedLoss, parts: LossParts, role: LossRole) -> Code:
    """The entry of `in_keys` for a role: none where nothing needs it."""
    text = (
        using(f"next_key(keys.{role.accepted})", "next_key") if role.after else Code(f"keys.{role.accepted}")
    )
    needed = parts.needed(role_symbol(loss, role.name))
    if needed in (ALWAYS, NEVER):  # what nothing needs the estimator reads, or a mask is
        return text
    chosen = condition_code(loss, needed)
    return using(f"*([{text}] if {chosen} else [])", *text.uses, *chosen.uses)


def _is_number(made: Forward) -> bool:
    """Whether a value of the class is one number of each sample."""
    return not (made.inner or made.replaced or made.type.dims or made.type.axes)


def _read(loss: CheckedLoss, parts: LossParts, role: LossRole) -> Code:
    record = "next_tensordict" if role.after else "tensordict"
    if isinstance(role.missing, float) and role.type is not None:
        dims = (*role.type.shape, *((1,) if role.type.col else ()))
        dtype = f"torch.{role.type.dtype}"
        text = f"self._read_or({record}, keys.{role.accepted}, {literal(role.missing)}, {literal(dims)}, {dtype})"
        return using(text, "torch")
    if role.optional:
        return Code(f"self._read_if_there({record}, keys.{role.accepted}, {literal(role.name)})")
    text = f"self._read({record}, keys.{role.accepted}, {literal(role.name)})"
    each = next(
        (made for made in loss.forward if _is_number(made) and parts.needed(made.symbol) == ALWAYS), None
    )
    if loss.samples and role.type is not None and each is not None:
        text = f"self._of_samples({text}, {each.name}, {role.type.rank + role.type.col})"
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


def _reduced(loss: CheckedLoss, statement: Statement) -> str:
    """A term, reduced over the samples that count for it."""
    mask = ", terms.mask" if loss.mask is not None else ""
    mask = f", terms.{statement.name}_mask" if statement.target in loss.masks else mask
    return f"self._reduce_loss(terms.{statement.name}, tensordict{mask})"


def _mask_of_key(role: LossRole) -> tuple[str, Code]:
    """The variable of a mask that the data hold, and what reads it."""
    record = "self._next(tensordict)" if role.after else "tensordict"
    read = "_read_if_there" if role.optional else "_read"
    return role.name, Code(f"self.{read}({record}, self.tensor_keys.{role.accepted}, {literal(role.name)})")


def _metric(loss: CheckedLoss, statement: Statement) -> Code:
    if statement.target in loss.each:
        return Code(f"terms.{statement.name}")
    if loss.types[statement.target].level == "batch":
        mask = ", terms.mask" if loss.mask is not None else ""
        return Code(f"self._mean(terms.{statement.name}, tensordict{mask})")
    return using(f"torch.as_tensor(terms.{statement.name})", "torch")


def _actions(loss: CheckedLoss) -> bool:
    return any(network.action is not None for network in loss.networks)
