"""The numbers that a loss learns, as its constructor makes and its `forward` reads them."""

from __future__ import annotations

from specgen.check.loss_learnables import CheckedLearnable
from specgen.code import Code, using
from specgen.expr import Typed
from specgen.plan.loss_model import LearnablePlan
from specgen.program.torch_text import print_expression


def learnable_plan(one: CheckedLearnable) -> LearnablePlan:
    """How the constructor makes a number."""
    init = _number(one.init)
    if one.when is not None:
        init = using(f"{init} if {one.when} else None", *init.uses)
    fixed = one.fixed if isinstance(one.fixed, str) else "True" if one.fixed else ""
    low, high = (_number(bound) if bound is not None else "" for bound in (one.low, one.high))
    return LearnablePlan(one.name, init, low, high, fixed)


def learnable_argument(one: CheckedLearnable) -> Code:
    """How `forward` hands a number to the pure function."""
    value = Code(f"self.{one.name}")
    if one.bounded:
        function = "read_between" if one.through else "moved_between"
        value = using(f"{function}({value}, self.min_{one.name}, self.max_{one.name})", function)
    if one.when is not None:
        value = using(f"{value} if self.{one.when} else None", *value.uses)
    return using(f"{one.name}={value}", *value.uses)


def _number(value: Typed) -> Code:
    return print_expression(value, lambda symbol: symbol.name)
