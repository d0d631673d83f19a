"""Lifting a Gymnasium chain over time: its counters and sums for all steps of a rollout at once.

Gymnasium itself must be stepped; everything else need not wait for it. A carry that counts, or that adds up
what the environment returned, is known for all steps of an episode in closed form, bit by bit as step after step
would give it; then one call of the chain's own `advance`, on tensors with time in front, does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specgen.check.chain_model import CheckedChain, Instance, Row
from specgen.check.model import Statement
from specgen.expr.dtypes import is_float, is_int
from specgen.expr.tree import Binary, Compare, Expr, Literal, Logic, Name
from specgen.plan.chain_fields import ChainField
from specgen.plan.chain_writer import ChainWriter, NotHere
from specgen.plan.interface import Call
from specgen.plan.model import Argument, FunctionPlan, Line


@dataclass(frozen=True)
class Lift:
    """The methods of a liftable chain."""

    methods: tuple[FunctionPlan, ...]


def plan_lift(
    chain: CheckedChain, fields: tuple[ChainField, ...], advance: Call, begin: Callable[[], ChainWriter]
) -> Lift | None:
    """The methods that lift a chain, or ``None`` when one of its carries has no closed form.

    Args:
        chain: a chain over a Gymnasium environment.
        fields: its Root record.
        advance: its step function.
        begin: starts a writer whose values are those of a whole stretch.
    """
    stops: list[str] = []
    for instance in chain.instances:
        for row in instance.rows:
            for statement in instance.statements("step", row):
                target = row.outputs.get(statement.target.removeprefix("next."))
                if target is not None and target.group == "done":
                    stop = _stop(instance, row, statement)
                    if stop is None:
                        return None
                    stops.append(stop)
    writer = begin()
    before: dict[str, str] = {}
    read = [arg.removeprefix("root.") for arg in advance.args if arg.startswith("root.")]
    for name in read:
        text = _carried(chain, next(f for f in fields if f.field.name == name), writer)
        if text is None:
            return None
        before[f"root.{name}"] = text
    if any(arg.startswith("root.") for arg in writer.args):
        return None
    return Lift((*_stop_method(chain, stops), _lift_method(chain, advance, before, writer)))


def _carried(chain: CheckedChain, field: ChainField, writer: ChainWriter) -> str | None:
    """The values of a carry before each step of a stretch."""
    for instance in chain.instances:
        for row in instance.rows:
            for output, entry in row.outputs.items():
                if entry.dotted != field.key or not (instance.position < field.root[0]):
                    continue
                statement = next(
                    (s for s in instance.statements("step", row) if s.target == f"next.{output}"), None
                )
                added = _added(statement.expr, output) if statement is not None else None
                if added is None:
                    continue
                if isinstance(added, Literal) and isinstance(added.value, int) and is_int(entry.type.dtype):
                    by = f", by={added.value}" if added.value != 1 else ""
                    return f"counts_before(firsts.{field.field.name}, lengths{by})"
                if not isinstance(added, Name) or not is_float(entry.type.dtype):
                    continue
                source = row.inputs.get(added.path.removeprefix("next."))
                if source is None or not added.path.startswith("next."):
                    continue
                try:
                    terms = writer.value("next", source.dotted, (instance.position, -1.0))
                except NotHere:
                    return None
                return f"sums_before(firsts.{field.field.name}, {terms.text}, lengths)"
    return None


def _added(expr: Expr, output: str) -> Expr | None:
    """What `output + …` adds."""
    if not isinstance(expr, Binary) or expr.op != "+":
        return None
    for own, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if isinstance(own, Name) and own.path == output:
            return other
    return None


def _stop(instance: Instance, row: Row, statement: Statement) -> str | None:
    """After how many steps `flag or next.count >= limit` raises the flag, as text; ``None`` for other forms."""
    expr = statement.expr
    if not (isinstance(expr, Logic) and expr.op == "or" and len(expr.operands) == 2):
        return None
    flag, limit = expr.operands
    if not (isinstance(flag, Name) and flag.path == statement.target and isinstance(limit, Compare)):
        return None
    count, bound = limit.operands if len(limit.operands) == 2 else (None, None)
    if limit.ops != (">=",) or not isinstance(count, Name) or not isinstance(bound, Name):
        return None
    counter = count.path.removeprefix("next.")
    counting = next((s for s in instance.statements("step", row) if s.target == count.path), None)
    value = instance.params.get(bound.path)
    if counting is None or counter not in row.outputs or not isinstance(value, int):
        return None
    by = _added(counting.expr, counter)
    if not (isinstance(by, Literal) and by.value == 1):
        return None
    return f"{value} - int(root.{row.outputs[counter].name})"


def _stop_method(chain: CheckedChain, stops: list[str]) -> tuple[FunctionPlan, ...]:
    if not stops:
        return ()
    return (
        FunctionPlan(
            "_gym_stop",
            (Argument("root", f"{chain.name}Root"),),
            "int",
            (),
            (
                Line(
                    f"return max(1, {', '.join(stops)})"
                    if len(stops) == 1
                    else f"return max(1, min({', '.join(stops)}))"
                ),
            ),
            method=True,
        ),
    )


def _lift_method(
    chain: CheckedChain, advance: Call, before: dict[str, str], writer: ChainWriter
) -> FunctionPlan:
    texts = {**before, "params": "self.params", "consts": "self.consts", "env_consts": "self.env_consts"}
    lines = [
        Line(f"{name} = {texts[name]}") for name in ("params", "env_consts", "consts") if name in writer.args
    ]
    lines += [line for line in writer.lines if not line.text.startswith("done = ")]
    args = []
    for arg in advance.args:
        text = texts.get(arg, "observation" if arg.startswith("next_") else arg)
        args.append(text)
    names = ("observation", "reward", "terminated", "truncated")
    return FunctionPlan(
        "_gym_lift",
        (
            Argument("firsts", f"{chain.name}Root"),
            Argument("lengths", "Sequence[int]"),
            *(Argument(name, "Tensor") for name in names),
        ),
        f"{chain.name}Next",
        (),
        (*lines, Line(f"return {advance.name}({', '.join(args)})")),
        method=True,
    )
