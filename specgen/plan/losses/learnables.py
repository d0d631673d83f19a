"""The numbers that a loss learns, as its constructor makes and its `forward` reads them."""

from __future__ import annotations

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import CheckedLoss
from specgen.check.names import refusal
from specgen.code import Code, using
from specgen.expr import Typed
from specgen.plan.losses.model import LearnablePlan
from specgen.plan.model import Text
from specgen.program.torch_text import print_expression


def learnable_plan(one: CheckedLearnable, loss: CheckedLoss) -> LearnablePlan:
    """How the constructor makes a number."""
    optional = frozenset(param.name for param in loss.params if param.optional)
    init = _printed(one.init)
    if one.when is not None:
        when = _printed(one.when)
        init = using(f"{init} if {when} else None", *init.uses, *when.uses)
    fixed = one.fixed if isinstance(one.fixed, str) else "True" if one.fixed else ""
    return LearnablePlan(
        one.name, init, _bound(one.low, optional), _bound(one.high, optional), fixed, _exponential(one, loss)
    )


def _exponential(one: CheckedLearnable, loss: CheckedLoss) -> str:
    """What a number is the logarithm of, if no other attribute has that name; empty otherwise."""
    if not one.name.startswith("log_"):
        return ""
    taken = LOSS_ATTRIBUTES | loss.methods.keys() | {kept.state for kept in loss.coefficients.values()}
    for declared in (loss.params, loss.networks, loss.learnables, loss.modules):
        taken |= {each.name for each in declared}
    name = one.name.removeprefix("log_")
    return "" if name in taken or refusal(name) else name


def learnable_value(one: CheckedLearnable) -> Code:
    """How `forward` reads a number."""
    if not one.bounded:
        return Code(f"self.{one.name}")
    function = "read_between" if one.through else "moved_between"
    return using(f"{function}(self.{one.name}, self.min_{one.name}, self.max_{one.name})", function)


def _bound(bound: Typed | None, optional: frozenset[str]) -> Text:
    """A bound: none where a parameter is None that it reads."""
    if bound is None:
        return ""
    value = _printed(bound)
    given = [f"{symbol.name} is not None" for symbol in bound.symbols_read if symbol.name in optional]
    return using(f"{value} if {' and '.join(given)} else None", *value.uses) if given else value


def _printed(value: Typed) -> Code:
    return print_expression(value, lambda symbol: symbol.name)
