"""Conditions on the parameters of a loss in its class: which values it computes, and which keys it reads."""

from __future__ import annotations

from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.network_types import CALLED
from specgen.check.programs.loss import has_network
from specgen.code import Code, using
from specgen.expr import Symbol, Type
from specgen.program.conditions import ALWAYS, Condition
from specgen.program.torch_text import print_expression


def condition_code(loss: CheckedLoss, condition: Condition) -> Code:
    """A condition on the parameters and networks of the loss, as its methods read it."""
    path = f"losses.{loss.name}"
    given = {has_network(path, network): has(network) for network in loss.networks if network.optional}
    given |= {Symbol(f"{path}.networks.{one.name}", "", CALLED): f"self.{one.name}" for one in loss.networks}
    return print_expression(condition.typed, lambda symbol: given.get(symbol, f"self.{symbol.name}"))


def has(network: LossNetwork) -> str:
    """Whether an optional network was given, as the methods of the class read it."""
    return f"self.{network.name} is not None"


def where_needed(loss: CheckedLoss, condition: Condition, value: Code, otherwise: str = "None") -> Code:
    """A value where something needs it, and None elsewhere."""
    if condition == ALWAYS:
        return value
    chosen = condition_code(loss, condition)
    text = f"({value})" if " if " in value.text or value.text.startswith("lambda ") else value.text
    return using(f"{text} if {chosen} else {otherwise}", *value.uses, *chosen.uses)


def role_symbol(loss: CheckedLoss, role: str) -> Symbol:
    """What the data hold under the key of a role, also where expressions can't read it."""
    return loss.symbols.get(f"keys.{role}") or Symbol(f"losses.{loss.name}.keys.{role}", role, Type("any"))


def next_symbol(loss: CheckedLoss, role: str) -> Symbol:
    """What the next record holds under the key of a role that is of the data."""
    return Symbol(f"losses.{loss.name}.next.{role}", role, Type("any"))


def stored_symbol(loss: CheckedLoss, network: str) -> Symbol:
    """The parameters of its distribution that a policy wrote into the data."""
    return Symbol(f"losses.{loss.name}.stored.{network}", network, Type("any"))
