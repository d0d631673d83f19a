"""Which statements the next step waits for (hot), and which only a reader of the data does (cold)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from specgen.check.done_sets import joined_flags
from specgen.check.model import ENDING_FLAGS, CheckedEnv, Statement, dotted


@dataclass(frozen=True)
class Flow:
    """A step, split.

    Attributes:
        hot: statements that the next state or a done flag depends on, in order.
        cold: statements of the rewards that nothing hot reads, in order.
        promoted: rewards that the hot part computes, because the state or a random draw is behind them.
    """

    hot: tuple[Statement, ...]
    cold: tuple[Statement, ...]
    promoted: tuple[str, ...]


def split_step(env: CheckedEnv) -> Flow:
    """Split an environment's `step`."""
    by_target = {statement.target: statement for statement in env.step}
    flags = [dotted((*prefix, flag)) for prefix in env.done for flag in ENDING_FLAGS]
    records = [*(f"next.{entry.dotted}" for entry in env.state), *flags]
    hot = closure(by_target, records)
    # what is stored of a joined flag is not what the step says of it, so a reward can't read it from the record
    same = [name for name in records if name not in joined_flags(env)]
    cold: set[str] = set()
    promoted: list[str] = []
    for reward in (entry.dotted for entry in env.reward):
        needed = closure(by_target, [reward], stop=same)
        # a draw must not be repeated: what depends on one is computed once, with the state
        if reward in hot or any(by_target[name].draws for name in needed):
            promoted.append(reward)
            hot |= closure(by_target, [reward])
        else:
            cold |= needed
    order = [statement.target for statement in env.step]
    return Flow(
        tuple(by_target[name] for name in order if name in hot),
        tuple(by_target[name] for name in order if name in cold),
        tuple(promoted),
    )


def closure(
    by_target: Mapping[str, Statement], wanted: Iterable[str], stop: Collection[str] = ()
) -> set[str]:
    """The targets among `by_target` that `wanted` depend on, themselves included; not beyond `stop`."""
    found: set[str] = set()
    pending = [name for name in wanted if name in by_target]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        pending += [read for read in by_target[name].reads if read in by_target and read not in stop]
    return found


def reads(statements: Sequence[Statement]) -> list[str]:
    """The names that `statements` read and do not define themselves, in order of first use."""
    defined: set[str] = set()
    wanted: dict[str, None] = {}
    for statement in statements:
        wanted.update(dict.fromkeys(sorted(statement.reads - defined)))
        defined.add(statement.target)
    return list(wanted)
