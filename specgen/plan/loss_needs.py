"""When the class of a loss runs its networks and reads its keys: where what it returns needs them."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.loss_forward import Alias, Choice, Data, DrawnLogProb, ForwardValue, below
from specgen.check.loss_model import CheckedLoss
from specgen.expr import Symbol
from specgen.program.conditions import NEVER, Condition, condition_of


def needs_of_forward(loss: CheckedLoss, needs: Mapping[Symbol, Condition]) -> Mapping[Symbol, Condition]:
    """When each value is needed, those that only other values of the class read included.

    Args:
        loss: the loss.
        needs: when the pure function needs its arguments.
    """
    found = dict(needs)
    symbols = {made.name: made.symbol for made in loss.forward}

    def needed(symbol: Symbol | None, under: Condition) -> None:
        if symbol is not None:
            found[symbol] = found.get(symbol, NEVER) | under

    def read(value: ForwardValue, under: Condition) -> None:
        match value:
            case Alias(name) | DrawnLogProb(name):
                needed(symbols[name], under)
            case Data():
                needed(loss.symbols.get(f"keys.{value.role}"), under)
            case Choice():
                assert value.typed is not None
                holds = condition_of(value.typed)
                read(value.then, under & holds)
                read(value.otherwise, under & ~holds)
            case _:
                for part in below(value):
                    read(part, under)

    for made in reversed(loss.forward):
        read(made.value, found.get(made.symbol, NEVER))
    return found
