"""The benchmark's arithmetic: ratios of pairs, limits, and how they are shown."""

from __future__ import annotations

import pytest

from benchmarks.harness import Budget, Row, Work, paired
from benchmarks.table import render


class Clock:
    """A clock that only work moves, so that no test waits or depends on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def work(self, seconds: float) -> Work:
        def call() -> None:
            self.now += seconds

        return Work(call, units=2, clock=lambda: self.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_ratio_is_peer_by_ours(clock: Clock) -> None:
    row = paired("working", clock.work(0.004), clock.work(0.012), Budget(rounds=3, seconds=0.01), limit=2)
    assert row.ratio == pytest.approx(3)
    assert row.spread == pytest.approx((3, 3))
    assert (row.ours, row.peer) == pytest.approx((0.002, 0.006))
    assert row.holds


def test_without_a_peer_the_limit_is_on_the_time(clock: Clock) -> None:
    assert not paired("working", clock.work(0.004), None, Budget(rounds=2, seconds=0.01), limit=0.0001).holds
    assert paired("working", clock.work(0.004), None, Budget(rounds=2, seconds=0.01), limit=1).holds


def test_table() -> None:
    rows = [
        Row("step", 50e-6, 700e-6, 14.0, (13.0, 15.0), "TorchRL", 5, rate=False),
        Row("rollout", 1e-7, 2e-7, 2.0, (1.9, 2.1), "TorchRL", 25, rate=True),
        Row("check", 0.25, None, None, None, "TorchRL", 0.2, rate=False),
        Row("score", 20.0, 500.0, 25.0, (24.0, 26.0), "TorchRL", 30, rate=False, memory=True),
    ]
    lines = render(rows).splitlines()
    assert lines[2].split() == ["step", "50", "µs", "700", "µs", "TorchRL", "14.00", "13.0-15.0", ">=", "5"]
    assert lines[3].split() == ["rollout", "10M/s", "5M/s", "TorchRL", "2.00", "1.9-2.1", ">=", "25", "BELOW"]
    assert lines[4].split() == ["check", "250", "ms", "<=", "200", "ms", "ABOVE"]
    assert lines[5].split() == [
        *("score", "20", "MiB", "500", "MiB", "TorchRL", "25.00", "24.0-26.0", ">=", "30", "BELOW")
    ]
