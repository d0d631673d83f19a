"""Time limits of a chain that never end an episode: another one ends it before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specgen.check.chains.model import Instance, Row
from specgen.check.model import CheckedEnv, Statement
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import env_lints as rules
from specgen.expr import Expr
from specgen.expr.tree import Binary, Call, Compare, Literal, Logic, Name
from specgen.values import dataclass


@dataclass(frozen=True)
class _Limit:
    """After how many steps a transform of a chain raises a flag of its episodes.

    Attributes:
        instance: the transform.
        param: the parameter that says so.
        steps: its value.
        episodes: the flag that its count is of.
    """

    instance: Instance
    param: str
    steps: int
    episodes: str


def warn_of_late_limits(
    env: CheckedEnv, instances: Sequence[Instance], spans: Mapping[int, Span], sink: Sink
) -> None:
    """Warn of time limits behind one that comes first: Gymnasium's, or another one of the same episodes.

    Args:
        env: the environment of the chain.
        instances: its transforms.
        spans: where each of them stands.
        sink: takes the warnings.
    """
    limits = [limit for instance in instances for row in instance.rows for limit in _limits(instance, row)]
    gymnasium = env.gymnasium
    most = None if gymnasium is None else gymnasium.max_episode_steps
    repeats = any(instance.transform.around is not None for instance in instances)
    for limit in limits:
        name, span = limit.instance.transform.name, spans[limit.instance.position]
        message = f"`{name}` never raises its flag, at {limit.steps} steps: "
        if gymnasium is not None and most is not None and most < limit.steps:
            message += f"Gymnasium ends the episodes of `{gymnasium.id}` after {most}"
            help = f"leave {_left_out(limit)} out; `kwargs: {{max_episode_steps: {limit.steps}}}` lets them last longer"
            sink.add(rules.LATE_LIMIT.at(span, message, help=help))
            continue
        first = next((one for one in limits if not repeats and _ends_before(one, limit)), None)
        if first is not None:
            message += f"`{first.instance.transform.name}` ends these episodes after {first.steps}"
            notes = [Note("it stands here", spans[first.instance.position])]
            sink.add(rules.LATE_LIMIT.at(span, message, notes=notes, help=f"leave {_left_out(limit)} out"))


def _left_out(limit: _Limit) -> str:
    """What a chain does not need: the limit, or the transform that can't be without."""
    transform = limit.instance.transform
    return f"`{limit.param}`" if transform.param(limit.param).optional else f"`{transform.name}`"


def _ends_before(one: _Limit, other: _Limit) -> bool:
    return one.steps < other.steps and one.episodes == other.episodes and one.instance.derives_done


def _limits(instance: Instance, row: Row) -> Iterator[_Limit]:
    """The time limits of one repetition of a transform: `next.flag or next.count >= limit`, where it counts by one from 0."""
    transform = instance.transform
    driver = transform.driver(inverse=False)
    if driver is None:
        return
    steps = {one.target: one for one in instance.statements("step", row)}
    resets = {one.target: one for one in instance.statements("reset", row)}
    for output in transform.outputs:
        statement = steps.get(f"next.{output.name}")
        if not output.flag or statement is None or output.name not in row.outputs:
            continue
        for count, param in _compared(statement.expr, f"next.{output.name}"):
            value = instance.params.get(param)
            counts = _counts(count, steps.get(f"next.{count}"), resets.get(count))
            if counts and isinstance(value, int) and not isinstance(value, bool):
                yield _Limit(instance, param, value, row.inputs[driver.name].dotted)


def _compared(expr: Expr, flag: str) -> Iterator[tuple[str, str]]:
    """What a flag is raised by: a value after the step, without `next.`, that reaches a parameter."""
    if not (isinstance(expr, Logic) and expr.op == "or" and len(expr.operands) == 2):
        return
    first, second = expr.operands
    if not (isinstance(first, Name) and first.path == flag):
        first, second = second, first
    if not (isinstance(first, Name) and first.path == flag and isinstance(second, Compare)):
        return
    left, *right = second.operands
    reached = second.ops in ((">=",), ("==",)) and isinstance(left, Name) and left.path.startswith("next.")
    if reached and isinstance(left, Name) and isinstance(right[0], Name):
        yield left.path.removeprefix("next."), right[0].path


def _counts(name: str, step: Statement | None, reset: Statement | None) -> bool:
    """Whether a value is 0 at a reset, and grows by one at each step."""
    if step is None or reset is None:
        return False
    grown, begun = step.expr, reset.expr
    begins = isinstance(begun, Literal) and begun.value == 0
    begins |= isinstance(begun, Call) and begun.function.path == "zeros_like"
    if not (begins and isinstance(grown, Binary) and grown.op == "+"):
        return False
    for one, other in ((grown.left, grown.right), (grown.right, grown.left)):
        if isinstance(one, Name) and one.path == name and isinstance(other, Literal) and other.value == 1:
            return True
    return False
