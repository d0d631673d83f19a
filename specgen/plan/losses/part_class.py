"""How the class of a loss computes one part of it: what it hands to the pure function, and what it makes of the terms."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.losses.forward import Data, Forward, NetworkCall, Read, parts_of
from specgen.check.losses.model import CheckedLoss, LossRole
from specgen.check.model import Statement
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.docs import summary
from specgen.plan.losses.coefficients import order_of_parts, param_argument, updated
from specgen.plan.losses.conditions import has, where_needed
from specgen.plan.losses.forward import ForwardPrinter, reader_of, records
from specgen.plan.losses.learnables import learnable_value
from specgen.plan.losses.model import PartPlan, ReturnPlan
from specgen.plan.losses.parts import PartArguments
from specgen.plan.model import CallPlan, Text
from specgen.program.conditions import ALWAYS


def part_plan(loss: CheckedLoss, part: PartArguments) -> PartPlan:
    """A part as the class computes it."""
    printer, forward = ForwardPrinter(loss, part.needed, part.part.trained, part.values), part.forward(loss)
    owner = "terms" if part.alone else f"{part.part.name}_terms"
    calls = [below for made in forward for below in parts_of(made.value) if isinstance(below, NetworkCall)]
    return PartPlan(
        name=part.part.name,
        record=part.record,
        method=f"_{part.part.program.name}_terms",
        doc=tuple(summary(f"{part.listed} of `{loss.name}`, one value per sample.")),
        owner=owner,
        outputs=part.part.outputs,
        now=_networks(loss, part, calls, "now"),
        next=_networks(loss, part, calls, "next"),
        networks=tuple(
            one.name
            for one in loss.networks
            if not (one.optional or one.kept) and any(call.network == one.name for call in calls)
        ),
        reads_keys=bool(part.roles) or any(_reads_keys(loss, made) for made in forward),
        reads_next=any(role.after for role in part.roles)
        or any("next" in records(made.value, loss) for made in forward),
        values=tuple(printer.lines()),
        call=_call(loss, part, printer),
        writes=tuple((statement.target, statement.name) for statement in part.of(loss.writes)),
        adapts=tuple((loss.coefficients[updated(one)].state, one.name) for one in part.of(loss.update)),
        returns=(
            *(_returned(loss, part, s, _reduced(loss, s, owner)) for s in part.of(loss.terms)),
            *(_returned(loss, part, s, _metric(loss, s, owner)) for s in part.of(loss.metrics)),
        ),
    )


def _networks(
    loss: CheckedLoss, part: PartArguments, calls: Iterable[NetworkCall], record: str
) -> tuple[str, ...]:
    """The networks that read a record for a part; an estimator of what is missing may call any."""
    estimated = any(role.missing == "estimate" for role in part.roles)
    read = {call.network for call in calls if call.record == record}
    return tuple(one.name for one in loss.networks if not one.kept and (estimated or one.name in read))


def _reads_keys(loss: CheckedLoss, made: Forward) -> bool:
    """Whether the class reads its keys to compute a value."""
    networks = loss.networks_by_name

    def by_keys(call: NetworkCall) -> bool:
        network = networks[call.network]
        return bool(network.of_data(call)) if network.kept else bool(call.replaced) or not network.policy

    return any(
        isinstance(below, Data) or (isinstance(below, NetworkCall) and by_keys(below))
        for below in parts_of(made.value)
    )


def _returned(loss: CheckedLoss, part: PartArguments, statement: Statement, value: Text) -> ReturnPlan:
    by_part = statement.target in loss.by_part
    return ReturnPlan(
        statement.name, value, part.returned(loss, statement) != ALWAYS and not by_part, by_part
    )


def _call(loss: CheckedLoss, part: PartArguments, forward: ForwardPrinter) -> CallPlan:
    args: list[Text] = [
        where_needed(loss, part.needed(made.symbol), forward.argument(made))
        if made.replaced
        else forward.argument(made)
        for made in part.values
    ]
    args += [
        where_needed(loss, part.needed(loss.symbols[f"keys.{role.name}"]), _read(loss, part, role))
        for role in part.roles
    ]
    if part.masked:
        args.append("self._mask(tensordict)")
    if part.estimates:
        args.append("self._value_estimate(tensordict)")
    return CallPlan(part.part.program.name, (*args, *held_by_loss(loss, part)))


def held_by_loss(loss: CheckedLoss, part: PartArguments) -> list[Text]:
    """The arguments of a pure function by keyword: what the loss holds."""
    args: list[Text] = []
    for module in part.modules:
        value = Code(f"self.{module.name}")
        if module.optional and module.symbol in part.there:
            value = using(f"not_none({value})", "not_none")
        args.append(using(f"{module.name}={value}", *value.uses))
    args += [f"has_{network.name}={has(network)}" for network in part.networks]
    args += [f"random_{one.name}=self.random_{one.name}" for one in part.plain]
    args += [
        param_argument(loss, one, given=one.symbol in part.there, needed=part.needed(one.symbol))
        for one in part.params
    ]
    args += [f"{bound.name}=self.{bound.name}" for bound in part.bounds]
    for one in part.learnables:
        value = where_needed(loss, part.needed(one.symbol), learnable_value(one))
        args.append(using(f"{one.name}={value}", *value.uses))
    return args


def _is_number(made: Forward) -> bool:
    """Whether a value of the class is one number of each sample."""
    return not (made.inner or made.replaced or made.type.dims or made.type.axes)


def _is_scored(loss: CheckedLoss, role: LossRole) -> bool:
    """Whether the class asks a distribution of what the data hold under the key of a role."""
    values = (part for made in loss.forward for part in parts_of(made.value))
    return any(isinstance(value, Read) and Data(role.name) in value.given for value in values)


def _read(loss: CheckedLoss, part: PartArguments, role: LossRole) -> Code:
    record = "next_tensordict" if role.after else "tensordict"
    if isinstance(role.missing, float) and role.type is not None:
        dims = (*role.type.shape, *((1,) if role.type.col else ()))
        dtype = f"torch.{role.type.dtype}"
        text = f"self._read_or({record}, keys.{role.accepted}, {literal(role.missing)}, {literal(dims)}, {dtype})"
        return using(text, "torch")
    network = next((n for n in loss.networks if n.action == role.name), None)
    read = "self._read" if network is not None else reader_of(loss, role)  # actions may be one-hot
    if network is None and read == "self._read" and _is_scored(loss, role):
        read = "self._read_without_gradient"  # which takes actions of several parts, too
    read = f"{read}_if_there" if role.optional else read
    text = f"{read}({record}, keys.{role.accepted}, {literal(role.name)})"
    each = next(
        (made for made in loss.forward if _is_number(made) and part.needed(made.symbol) == ALWAYS), None
    )
    if loss.samples and role.type is not None and each is not None:
        own = (
            *(size if isinstance(size, int) else -1 for size in role.type.shape),
            *((1,) if role.type.col else ()),
        )
        text = f"self._of_samples({text}, {each.name}, {literal(own)}, {literal(role.name)})"
    if network is None:
        return Code(text)
    values = next(made.name for made in part.forward(loss) if made.network == network.name)
    one = f"{values}[0]" if network.members else values
    if network.choices:
        return using(
            f"choice_indices({text}, {values}, self.action_space, not_none(self.var_nums))",
            "choice_indices",
            "not_none",
        )
    shared = network.type.rank - 1 - (0 if role.type is None else role.type.rank)
    if shared:  # such as the atoms of the value of each action
        one += f"[..., {'0, ' * shared}:]"
    choices = "" if network.members else ", self.var_nums"
    return using(f"action_index({text}, {one}, self.action_space{choices})", "action_index")


def _reduced(loss: CheckedLoss, statement: Statement, owner: str) -> str:
    """A term, reduced over the samples that count for it."""
    mask = f", {owner}.mask" if loss.mask is not None else ""
    mask = f", {owner}.{statement.name}_mask" if statement.target in loss.masks else mask
    first = "" if loss.means is None else f", first=self.means_first[self.{loss.means.by}]"
    return f"samples.reduced({owner}.{statement.name}{mask}{first})"


def _metric(loss: CheckedLoss, statement: Statement, owner: str) -> Code:
    text, type = f"{owner}.{statement.name}", loss.types[statement.target]
    if statement.target in loss.each:
        return Code(text)
    if statement.target in loss.by_part:
        pattern = literal(loss.by_part[statement.target])
        order = order_of_parts(loss)
        given = ", ".join([literal(statement.target), text, pattern, *(one.text for one in order)])
        return using(
            f"entries_of_parts(self, {given})",
            "entries_of_parts",
            *(name for one in order for name in one.uses),
        )
    if type.level == "batch":
        mask = f", {owner}.mask" if loss.mask is not None else ""
        return Code(f"samples.mean({text}{mask})")
    return using(f"torch.as_tensor({text})", "torch") if type.python else Code(text)
