"""Paired timings: two ways of doing the same work, measured in turns, so that a drifting machine hits both."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """Something to time.

    Attributes:
        call: does ``units`` units of it.
        units: steps, losses, commands.
        prepare: called before each call, which is not timed.
        clock: in seconds; that of this process alone, `time.process_time`, for work of one thread, which other processes
            then do not slow down.
    """

    call: Callable[[], object]
    units: int = 1
    prepare: Callable[[], object] | None = None
    clock: Callable[[], float] = time.perf_counter

    def seconds(self) -> float:
        """How long one call takes."""
        if self.prepare is not None:
            self.prepare()
        start = self.clock()
        self.call()
        return self.clock() - start


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: what was measured.
        ours: seconds a unit, the median over the rounds.
        peer: the same for the peer, or None if there is no peer.
        ratio: the median over the rounds of peer / ours: how many times faster ours is.
        spread: the smallest and the largest of these ratios.
        peer_name: what the peer is.
        limit: the least ratio that is promised, or None. Without a peer, the most seconds.
        rate: shown as units a second instead of time a unit.
        memory: ``ours`` and ``peer`` are mebibytes, and the ratio says how many times less ours is.
    """

    name: str
    ours: float
    peer: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    peer_name: str
    limit: float | None
    rate: bool
    memory: bool = False

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; a row without one always holds."""
        if self.limit is None:
            return True
        return self.ours <= self.limit if self.ratio is None else self.ratio >= self.limit


@dataclass(frozen=True)
class Budget:
    """How long to measure: rounds of each pair, and the least seconds of one timing."""

    rounds: int
    seconds: float


THOROUGH = Budget(rounds=9, seconds=0.4)
QUICK = Budget(rounds=3, seconds=0.05)


def paired(
    name: str,
    ours: Work,
    peer: Work | None,
    budget: Budget,
    *,
    peer_name: str = "TorchRL",
    limit: float | None = None,
    rate: bool = False,
) -> Row:
    """Time ``ours`` and ``peer`` in turns and compare each pair of neighbours.

    The order alternates between rounds; both are warmed up, and called as often in one timing as fills
    ``budget.seconds``. The garbage collector rests meanwhile.
    """
    works = [ours] if peer is None else [ours, peer]
    repeats = [_repeats(work, budget.seconds) for work in works]
    seconds: list[list[float]] = [[] for _ in works]
    enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(budget.rounds):
            order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
            for index in order:
                seconds[index].append(_time(works[index], repeats[index]))
            gc.collect()
    finally:
        if enabled:
            gc.enable()
    if peer is None:
        return Row(name, statistics.median(seconds[0]), None, None, None, peer_name, limit, rate)
    ratios = [b / a for a, b in zip(*seconds, strict=True)]
    return Row(
        name,
        statistics.median(seconds[0]),
        statistics.median(seconds[1]),
        statistics.median(ratios),
        (min(ratios), max(ratios)),
        peer_name,
        limit,
        rate,
    )


def _repeats(work: Work, seconds: float) -> int:
    """How often to call ``work`` to fill ``seconds``; calling it to find out is the warm-up."""
    work.seconds()
    once = max(work.seconds(), 1e-9)
    return max(1, round(seconds / once))


def _time(work: Work, repeats: int) -> float:
    """Seconds a unit."""
    return sum(work.seconds() for _ in range(repeats)) / (repeats * work.units)
