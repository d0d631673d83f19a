"""Lifting a Gymnasium chain over time: what it carries, for all steps of a rollout at once.

Gymnasium itself must be stepped; everything else need not wait for it. A carry that counts, or that adds up
what the environment returned, is known for all steps of an episode in closed form, bit by bit as step after step
would give it; then one call of the chain's own `advance`, on tensors with time in front, does the rest.
"""

from __future__ import annotations

from specgen.code import Code, named, using
from specgen.plan.functions import plan_function
from specgen.plan.interface import EnvInterface
from specgen.plan.model import Argument, CallPlan, FunctionPlan, Line
from specgen.program.lift import Limit, lift
from specgen.program.lifted import FIRSTS, LENGTHS, lifted
from specgen.program.program import Component, Program
from specgen.program.torch_text import RECORDS
from specgen.values import replace

LIFT = "_gym_lift"
"""The method that computes many steps at once."""

_FIRSTS = "_gym_firsts"
_RECORDS = ("consts", "constants", "params")

_RETURNED = ("observation", "reward", "terminated", "truncated")
"""What Gymnasium returned, for all steps."""


def plan_lift(component: Component, advance: Program) -> tuple[FunctionPlan, ...]:
    """The methods that lift a chain; none where something that it carries needs the loop.

    Args:
        component: a chain over a Gymnasium environment with one observation.
        advance: its step function.
    """
    found = lift(component)
    whole = lifted(component, found, advance)
    if whole is None or not all(limit.reached for limit in found.limits):
        return ()
    return (*_stop_method(component, found.limits), _lift_method(component, whole))


def plan_firsts(interface: EnvInterface, observed: str, call: CallPlan) -> tuple[FunctionPlan, ...]:
    """The method that makes the records of resets, of many at once; none where a reset needs more than its observation.

    Args:
        interface: of the chain.
        observed: what `call` calls the observation.
        call: of the reset function.
    """
    for passed in interface.reset.args if interface.reset is not None else ():
        if passed.kind == "draw" or (passed.kind == "record" and passed.name not in _RECORDS):
            return ()
    arguments = (Argument("not_done", named("Tensor")), Argument(observed, named("Tensor")))
    line = Line(f"return {call.function}({', '.join(map(str, call.args))})")
    return (
        FunctionPlan(
            _FIRSTS,
            arguments,
            f"{interface.name}Root",
            (),
            (line,),
            method=True,
            uses=frozenset({call.function}),
        ),
    )


def _stop_method(component: Component, limits: tuple[Limit, ...]) -> tuple[FunctionPlan, ...]:
    if not limits:
        return ()
    steps = list(dict.fromkeys(map(_steps_text, limits)))
    least = steps[0] if len(steps) == 1 else f"min({', '.join(steps)})"
    root = Argument("root", f"{component.name}Root")
    line = Line(f"return max(1, {least})")
    return (FunctionPlan("_gym_stop", (root,), "int", (), (line,), method=True),)


def _steps_text(limit: Limit) -> str:
    """After how many steps a counter reaches its limit."""
    counter, by = f"int(root.{limit.counter.cell.name})", limit.counter.by
    number = str(limit.number)
    if limit.param is not None:
        offset = f" {'-' if limit.number < 0 else '+'} {abs(limit.number)}" if limit.number else ""
        number = f"self.params.{limit.param.name}{offset}"
        if offset and not limit.above:
            number = f"({number})"
    missing = f"{number} - {counter}" if limit.above else f"{counter} - {number}"
    return missing if abs(by) == 1 else f"-(-({missing}) // {abs(by)})"


def _lift_method(component: Component, whole: Program) -> FunctionPlan:
    """`LIFT`: from what episodes begin with and what Gymnasium returned to the records of all steps."""
    given = (one for one in whole.inputs if one.kind == "given")
    names = {one.symbol: "observation" for one in given if one.symbol.name not in _RETURNED}
    inputs = tuple(
        replace(one, symbol=replace(one.symbol, name=names.get(one.symbol, one.symbol.name)))
        for one in whole.inputs
    )
    records = dict.fromkeys(RECORDS, Code(""))
    plan = plan_function(replace(whole, inputs=inputs), "", records).plan
    read = [argument.name for argument in plan.args if argument.name in RECORDS and argument.name != FIRSTS]
    arguments = (
        Argument(FIRSTS, f"{component.name}Root"),
        Argument(LENGTHS.name, using("Sequence[int]", "Sequence")),
        *(Argument(name, named("Tensor")) for name in _RETURNED),
    )
    return FunctionPlan(
        LIFT,
        arguments,
        f"{component.name}Next",
        (),
        (*(Line(f"{name} = self.{name}") for name in read), *plan.body),
        method=True,
        uses=plan.uses,
    )
