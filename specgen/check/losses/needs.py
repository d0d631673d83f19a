"""When the class of a loss runs its networks, draws, and reads its keys: where what it returns needs them."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.losses.forward import (
    Alias,
    Choice,
    Data,
    DrawnLogProb,
    ForwardValue,
    NetworkCall,
    values_below,
)
from specgen.check.losses.model import CheckedLoss
from specgen.expr import Symbol, Type
from specgen.program.conditions import NEVER, Condition, condition_of


def needs_of_forward(loss: CheckedLoss, needs: Mapping[Symbol, Condition]) -> Mapping[Symbol, Condition]:
    """When each value is needed, those included that only other values of the class read.

    Args:
        loss: the loss.
        needs: when the pure function needs its arguments.
    """
    found = dict(needs)
    symbols = {made.name: made.symbol for made in loss.forward}
    networks = loss.networks_by_name
    after = {role.name for role in loss.roles if role.after}

    def add(symbol: Symbol, under: Condition) -> None:
        found[symbol] = found.get(symbol, NEVER) | under

    def read(value: ForwardValue, under: Condition) -> None:
        match value:
            case Alias(name) | DrawnLogProb(name):
                add(symbols[name], under)
            case NetworkCall(network, "stored"):
                add(stored_symbol(loss, network), under)
            case Data(role):
                add(role_symbol(loss, role), under)
            case Choice():
                assert value.typed is not None
                holds = condition_of(value.typed)
                read(value.then, under & holds)
                read(value.otherwise, under & ~holds)
            case _:
                if isinstance(value, NetworkCall):
                    for role in networks[value.network].of_data(value):
                        of_next = value.record == "next" and role not in after
                        add(next_symbol(loss, role) if of_next else role_symbol(loss, role), under)
                for part in values_below(value):
                    read(part, under)

    for made in reversed(loss.forward):
        read(made.value, found.get(made.symbol, NEVER))
    return found


def role_symbol(loss: CheckedLoss, role: str) -> Symbol:
    """What the data hold under the key of a role, also where expressions can't read it."""
    return loss.symbols.get(f"keys.{role}") or Symbol(f"losses.{loss.name}.keys.{role}", role, Type("any"))


def next_symbol(loss: CheckedLoss, role: str) -> Symbol:
    """What the next record holds under the key of a role that is of the data."""
    return Symbol(f"losses.{loss.name}.next.{role}", role, Type("any"))


def stored_symbol(loss: CheckedLoss, network: str) -> Symbol:
    """The parameters of its distribution that a policy wrote into the data."""
    return Symbol(f"losses.{loss.name}.stored.{network}", network, Type("any"))
