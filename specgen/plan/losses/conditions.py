"""Conditions on the parameters of a loss in its class: which values it computes, and which keys it reads."""

from __future__ import annotations

from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.check.network_types import CALLED
from specgen.check.programs.loss import has_network
from specgen.code import Code, using
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.optional import GIVEN
from specgen.literals import literal
from specgen.precedence import OR, TERNARY
from specgen.program.conditions import ALWAYS, Condition
from specgen.program.torch_text import print_expression
from specgen.program.walk import read, substituted


def condition_code(loss: CheckedLoss, condition: Condition) -> Code:
    """A condition on the parameters and networks of the loss, and on what data hold, as its methods read it."""
    path = f"losses.{loss.name}"
    networks = {Symbol(f"{path}.networks.{one.name}", one.name, CALLED): one for one in loss.networks}
    asked = {has_network(path, one): _given(symbol) for symbol, one in networks.items() if one.optional}
    typed = substituted(condition.typed, asked)
    names = {symbol: f"self.{one.name}" for symbol, one in networks.items()}
    for role in loss.roles:
        if role.optional and role.type is not None:
            record = "next_tensordict" if role.after else "tensordict"
            entry = f"self._read_if_there({record}, keys.{role.accepted}, {literal(role.name)})"
            names[loss.symbols[f"keys.{role.name}"]] = entry
    return print_expression(typed, lambda symbol: names.get(symbol) or f"self.{symbol.name}")


def of_attributes(typed: Typed) -> Code:
    """An expression of parameters, which are attributes of the class."""
    return print_expression(typed, lambda symbol: f"self.{symbol.name}")


def _given(symbol: Symbol) -> Typed:
    return Typed(GIVEN.name, Type("bool", (), "ctor"), full("bool"), (read(symbol),), builtin=GIVEN)


def has(network: LossNetwork) -> str:
    """Whether an optional network was given, as the methods of the class read it."""
    return f"self.{network.name} is not None"


def where_needed(loss: CheckedLoss, condition: Condition, value: Code, otherwise: str = "None") -> Code:
    """A value where something needs it, and None elsewhere."""
    if condition == ALWAYS:
        return value
    chosen = condition_code(loss, condition)
    text = f"{value.at(OR)} if {chosen.at(OR)} else {otherwise}"
    return using(text, *value.uses, *chosen.uses, precedence=TERNARY)
