"""The plan of the thin class around the pure function of a loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from specgen.check.losses.forward import NetworkBuffer
from specgen.check.losses.model import CheckedLoss, LossNetwork, LossRole
from specgen.check.losses.needs import next_symbol, stored_symbol
from specgen.check.losses.projection import PROJECT
from specgen.check.losses.trained import trained_by_terms
from specgen.check.programs.loss import negated
from specgen.code import Code, using
from specgen.expr.sizes import Rest
from specgen.literals import literal
from specgen.plan.losses.class_docs import class_doc, forward_doc, init_doc
from specgen.plan.losses.coefficients import (
    asked,
    coefficient_plan,
    in_constructor,
    needs_of_auto,
    param_plan,
)
from specgen.plan.losses.conditions import condition_code
from specgen.plan.losses.facts import (
    can_leave_networks,
    evaluated_networks,
    has_scalars,
    policy_of_parts,
    reparameterized,
)
from specgen.plan.losses.forward import roles_read
from specgen.plan.losses.learnables import learnable_plan
from specgen.plan.losses.methods import method_plan
from specgen.plan.losses.model import KeyLists, LossPlan, NetworkPlan
from specgen.plan.losses.modules import module_plans, updates
from specgen.plan.losses.numbers import ranges
from specgen.plan.losses.part_class import part_plan
from specgen.plan.losses.parts import PartArguments
from specgen.plan.model import RefusalPlan, Text
from specgen.plan.refusals import refusals
from specgen.program.conditions import ALWAYS, NEVER, Condition, condition_of

_ESTIMATORS = {
    "td0": "TD0",
    "td1": "TD1",
    "td_lambda": "TDLambda",
    "gae": "GAE",
    "multi_agent_gae": "MAGAE",
    "vtrace": "VTrace",
}


def loss_class(
    loss: CheckedLoss, parts: Sequence[PartArguments], given: Mapping[str, PartArguments]
) -> LossPlan:
    """The `LossModule` subclass.

    Args:
        loss: the loss.
        parts: its parts, with what they take.
        given: its methods that are given values, likewise.
    """
    inside, expressed = roles_read(loss), {role.name for part in parts for role in part.roles}
    updating = {one.update for one in loss.modules}
    accepted = {role.name: role.accepted for role in loss.roles}
    read = [
        role
        for role in loss.roles
        if role.after
        or role.name in expressed
        or role.mask is not None
        or role.name in inside
        or role.name in updating
    ]
    estimated = [role for role in read if role.name in expressed and role.missing == "estimate"]
    return LossPlan(
        name=loss.name,
        parent=loss.parent.name if loss.parent is not None else "",
        own_roles=loss.parent is None or loss.parent.roles != loss.accepted,
        drops_roles=loss.parent is not None and not loss.parent.roles.keys() <= loss.accepted.keys(),
        doc=tuple(class_doc(loss)),
        init_doc=tuple(init_doc(loss)),
        forward_doc=forward_doc(loss),
        roles=tuple(loss.accepted.items()),
        features=tuple(_features(loss)),
        estimators=tuple(_ESTIMATORS[name] for name in loss.estimators),
        value_role=loss.value_role,
        out_keys=list(loss.out_keys),
        trained=trained_by_terms(loss),
        ranges=ranges(loss),
        reads_rows=_reads_rows(loss),
        evaluated=evaluated_networks(loss),
        networks=tuple(
            NetworkPlan(
                n.name,
                str(n.target),
                n.target is not False,
                accepted[n.action] if n.action is not None else "",
                _apart(loss, n),
                n.members,
                n.optional,
                n.policy,
                reparameterized(loss, n),
                n.plain,
                n.trains,
                tuple((what, accepted[role]) for role, what in n.keys.items()),
                n.choices,
            )
            for n in loss.networks
        ),
        params=tuple(param_plan(loss, param) for param in loss.params),
        refusals=tuple(_refusals(loss)),
        in_keys=(
            *_stored_keys(loss, parts),
            *_key_lists(loss, parts, [role for role in read if not _may_lack(role)]),
            *_next_keys(loss, parts),
        ),
        further_keys=_key_lists(loss, parts, [role for role in read if _may_lack(role)]),
        estimated=_key_lists(loss, parts, estimated),
        parts=tuple(part_plan(loss, part) for part in parts),
        updates=tuple(updates(loss)),
        updates_estimates=any(one.estimated for one in loss.modules),
        methods=tuple(method_plan(loss, name, parts, given.get(name)) for name in loss.methods),
        keywords=tuple(dict.fromkeys(word for one in loss.domains for word in one.keywords)),
        bounds=tuple((one.role, one.keywords) for one in loss.domains if one.low is not None),
        coefficients=tuple(coefficient_plan(loss, one) for one in loss.coefficients.values()),
        asked=asked(loss),
        modules=tuple(module_plans(loss)),
        supports=tuple(_supports(loss)),
        learnables=tuple(learnable_plan(one, loss) for one in loss.learnables),
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
        left_out=tuple(_left_out(loss)),
        parts_of=policy_of_parts(loss),
        returned="Tensor" if len(loss.terms) + len(loss.metrics) == 1 else "tuple[Tensor, ...]",
        returns_otherwise=loss.parent is not None
        and (loss.parent.returns == 1) is not (len(loss.out_keys) == 1),
        functional=can_leave_networks(loss),
        by_default=loss.functional,
        means_first=None if loss.means is None else dict(loss.means.dims),
        scalars=has_scalars(loss),
    )


def _left_out(loss: CheckedLoss) -> Iterator[tuple[str, Code]]:
    """The terms and metrics that are not always there, with the condition under which they are."""
    for statement in (*loss.terms, *loss.metrics):
        asked = []
        if statement.target in loss.when:
            asked.append(condition_code(loss, condition_of(loss.when[statement.target])))
        if statement.target in loss.by_part:
            asked.append(using("has_parts(self)", "has_parts"))
        if asked:
            uses = (name for one in asked for name in one.uses)
            yield statement.name, using(" and ".join(map(str, asked)), *uses)


def _supports(loss: CheckedLoss) -> Iterator[Code]:
    """The refusals of buffers that terms are projected on, where their atoms do not rise evenly."""
    statements = (*loss.let, *loss.terms, *loss.metrics, *loss.writes)
    nodes = (node for one in statements for node in one.typed.nodes if node.builtin is PROJECT)
    read = {node.args[2].symbol for node in nodes}
    for made in loss.forward:
        if isinstance(made.value, NetworkBuffer) and made.symbol in read:
            network, buffer = literal(made.value.network), literal(made.value.buffer)
            yield using(f"check_support(self, {network}, {buffer})", "check_support")


def _reads_rows(loss: CheckedLoss) -> bool:
    """Whether it reads sequences of tokens and writes nothing back, so that it may read padded copies of the data."""
    types = [role.type for role in loss.roles if role.type is not None]
    sized = "token" in loss.samples or any("token" in map(str, type.dims or ()) for type in types)
    return sized and not loss.writes


def _features(loss: CheckedLoss) -> Iterator[tuple[str, int]]:
    """The roles whose entries have a known number of dimensions, but those that every loss knows."""
    outputs = dict(one for network in loss.networks for one in network.outputs)
    actions = {network.action for network in loss.networks}  # stored as a number or one-hot
    for role in loss.roles:
        type = role.type or outputs.get(role.name)
        if type is None or role.after or role.name in actions:
            continue
        dims = type.dims or ()
        if not any(isinstance(dim, Rest) for dim in dims):
            # what is stored with a trailing 1 may be one for all samples of a row
            yield role.accepted, len(dims) + (1 if type.col else len(loss.samples))


def _refusals(loss: CheckedLoss) -> Iterator[RefusalPlan]:
    for param in loss.params:
        if param.kind == "enum" and param.name not in loss.fixed:
            may_lack = f"{param.name} is not None and " if param.optional else ""
            for refusal in refusals(param):
                yield RefusalPlan(f"{may_lack}{refusal.condition}", refusal.message)
    yield from needs_of_auto(loss)
    for requirement in loss.require:
        broken = in_constructor(loss, negated(requirement.condition.typed))
        yield RefusalPlan(broken, literal(requirement.message))


def _may_lack(role: LossRole) -> bool:
    """Whether the data may lack what a role reads."""
    return role.optional or role.missing is not None


def _next_keys(loss: CheckedLoss, parts: Sequence[PartArguments]) -> KeyLists:
    """The keys of what modules of tensors read of the next record, where something needs them."""
    found = []
    for role in loss.roles:
        wanted = [(part, part.needed(next_symbol(loss, role.name))) for part in parts]
        if any(needed != NEVER for _, needed in wanted):
            key = using(f"next_key(keys.{role.accepted})", "next_key")
            found.append((_where(loss, parts, wanted), (key,)))
    return tuple(found)


def _stored_keys(loss: CheckedLoss, parts: Sequence[PartArguments]) -> KeyLists:
    """The keys of the distributions that policies wrote into the data, where something needs them."""
    found = []
    for network in (one for one in loss.networks if one.policy):
        stored = stored_symbol(loss, network.name)
        wanted = [(part, part.needed(stored)) for part in parts]
        if any(needed != NEVER for _, needed in wanted):
            keys = Code(f"*self.functional_network({literal(network.name)}).stored_keys")
            found.append((_where(loss, parts, wanted), (keys,)))
    return tuple(found)


def _key_lists(loss: CheckedLoss, parts: Sequence[PartArguments], roles: Sequence[LossRole]) -> KeyLists:
    """The keys of roles, where something needs them."""
    found = [(_needed(loss, parts, role), role) for role in roles]
    return tuple(
        (condition, tuple(_in_key(role) for _, role in group))
        for condition, group in groupby(found, lambda one: one[0])
    )


def _in_key(role: LossRole) -> Code:
    """The entry of `in_keys` for a role."""
    key = f"keys.{role.accepted}"
    return using(f"next_key({key})", "next_key") if role.after else Code(key)


def _needed(loss: CheckedLoss, parts: Sequence[PartArguments], role: LossRole) -> Text:
    """The condition under which something reads the key of a role; empty if there is none."""
    wanted = [(part, part.reads(loss, role)) for part in parts]
    # what no part needs another estimator may read
    if role.mask is not None or all(needed == NEVER for _, needed in wanted):
        return ""
    return _where(loss, parts, wanted)


def _where(
    loss: CheckedLoss, parts: Sequence[PartArguments], wanted: Iterable[tuple[PartArguments, Condition]]
) -> Text:
    """The condition under which some part needs something; empty if all do, always."""
    wanted = [(part, needed) for part, needed in wanted if needed != NEVER]
    if len(wanted) == len(parts) and all(needed == ALWAYS for _, needed in wanted):
        return ""
    conditions = [_wanted(loss, part, needed) for part, needed in wanted]
    return using(" or ".join(map(str, conditions)), *(use for one in conditions for use in one.uses))


def _wanted(loss: CheckedLoss, part: PartArguments, needed: Condition) -> Code:
    """When something is needed for a part of which an entry is returned."""
    if part.alone:
        return condition_code(loss, needed)
    asked = f"self._wants({literal(part.part.name)})"
    if needed == ALWAYS:
        return Code(asked)
    chosen = condition_code(loss, needed)
    text = f"({chosen})" if len(needed.cases) > 1 else chosen.text
    return using(f"{asked} and {text}", *chosen.uses)


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


def _mask_of_key(role: LossRole) -> tuple[str, Code]:
    """The variable of a mask that the data hold, and what reads it."""
    record = "self._next(tensordict)" if role.after else "tensordict"
    read = "_read_if_there" if role.optional else "_read"
    return role.name, Code(f"self.{read}({record}, self.tensor_keys.{role.accepted}, {literal(role.name)})")
