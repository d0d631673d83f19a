"""What the class of a loss reads from the data, and in which cases, as printed Python."""

from __future__ import annotations

from specgen.check.loss_model import CheckedLoss, LossNetwork, LossRole
from specgen.check.network_types import CALLED
from specgen.check.programs.loss import has_network
from specgen.code import Code, using
from specgen.expr import Symbol
from specgen.literals import literal
from specgen.program.conditions import ALWAYS, Condition
from specgen.program.torch_text import print_expression


def read_role(loss: CheckedLoss, role: LossRole) -> Code:
    """What the data hold for a role."""
    record = "next_tensordict" if role.after else "tensordict"
    if isinstance(role.missing, float) and role.type is not None:
        dims = (*role.type.shape, *((1,) if role.type.col else ()))
        dtype = f"torch.{role.type.dtype}"
        text = f"self._read_or({record}, keys.{role.accepted}, {literal(role.missing)}, {literal(dims)}, {dtype})"
        return using(text, "torch")
    if role.optional:
        return Code(f"self._read_if_there({record}, keys.{role.accepted}, {literal(role.name)})")
    text = f"self._read({record}, keys.{role.accepted}, {literal(role.name)})"
    if loss.samples and role.type is not None:
        features = role.type.rank + role.type.col
        text = f"self._of_samples({text}, {record}, {len(loss.samples) + features})"
    return Code(text)


def condition_code(loss: CheckedLoss, condition: Condition) -> Code:
    """A condition on the parameters and networks of the loss, as its methods read it."""
    given = {has_network(f"losses.{loss.name}", n): is_given(n) for n in loss.networks if n.optional}
    given |= {
        Symbol(f"losses.{loss.name}.networks.{n.name}", "", CALLED): f"self.{n.name}" for n in loss.networks
    }
    return print_expression(condition.typed, lambda symbol: given.get(symbol, f"self.{symbol.name}"))


def is_given(network: LossNetwork) -> str:
    """Whether an optional network was given."""
    return f"self.{network.name} is not None"


def where_needed(loss: CheckedLoss, condition: Condition, value: Code, otherwise: str = "None") -> Code:
    """A value where something needs it, and None elsewhere."""
    if condition == ALWAYS:
        return value
    chosen = condition_code(loss, condition)
    text = f"({value})" if " if " in value.text else value.text
    return using(f"{text} if {chosen} else {otherwise}", *value.uses, *chosen.uses)
