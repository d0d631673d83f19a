"""Which statements the next step waits for (hot), and which only a reader of the data does (cold)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specgen.check.model import CheckedEnv, Statement, dotted


@dataclass(frozen=True)
class Flow:
    """A step, split.

    Attributes:
        hot: statements that the next state or a done flag depends on, in order.
        cold: statements of the rewards that nothing hot reads, in order.
        promoted: cold rewards' inputs that can't be computed again (they draw), and hot rewards: the names
            that the hot part has to hand over.
    """

    hot: tuple[Statement, ...]
    cold: tuple[Statement, ...]
    promoted: tuple[str, ...]


def split_step(env: CheckedEnv) -> Flow:
    """Split an environment's `step`."""
    by_target = {statement.target: statement for statement in env.step}
    hot_targets = [f"next.{entry.dotted}" for entry in env.state]
    hot_targets += [dotted((*prefix, flag)) for prefix in env.done for flag in ("terminated", "truncated")]
    hot = closure(by_target, hot_targets)
    rewards = [entry.dotted for entry in env.reward]
    cold_rewards = [name for name in rewards if name not in hot]
    records = set(hot_targets)
    drawn = {name for name, statement in by_target.items() if statement.draws}
    cold: set[str] = set()
    promoted = [name for name in rewards if name in hot]
    pending = list(cold_rewards)
    while pending:
        name = pending.pop()
        if name in cold or name in promoted or name in records or name not in by_target:
            continue
        if name in drawn:
            # a draw must not be repeated: the value is made once, in the hot part
            promoted.append(name)
            hot |= closure(by_target, [name])
            continue
        cold.add(name)
        pending += by_target[name].reads
    order = [statement.target for statement in env.step]
    return Flow(
        tuple(by_target[name] for name in order if name in hot),
        tuple(by_target[name] for name in order if name in cold),
        tuple(sorted(promoted, key=order.index)),
    )


def closure(by_target: dict[str, Statement], wanted: Iterable[str]) -> set[str]:
    """The targets among `by_target` that `wanted` depend on, themselves included."""
    found: set[str] = set()
    pending = [name for name in wanted if name in by_target]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        pending += [read for read in by_target[name].reads if read in by_target]
    return found


def reads(statements: Sequence[Statement]) -> list[str]:
    """The names that `statements` read and do not define themselves, in order of first use."""
    defined: set[str] = set()
    wanted: dict[str, None] = {}
    for statement in statements:
        wanted.update(dict.fromkeys(sorted(statement.reads - defined)))
        defined.add(statement.target)
    return list(wanted)
