"""Streams and schedules: pure functions of what they are given."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from specgen_runtime.training import cosine, exponential, linear, piecewise, stream


def test_streams_are_apart() -> None:
    seeds = {
        stream(seed, name) for seed in range(100) for name in ("env", "networks", "buffer", "evaluate/100")
    }
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert stream(1, "23") != stream(12, "3")
    # what a training was begun with has to be found again by later versions
    assert stream(0, "env") == 3842430913961652331


@pytest.mark.parametrize(("seed", "name"), [(0.5, "env"), (True, "env"), ("0", "env"), (0, 1)])
def test_streams_take_an_integer_and_a_name(seed: Any, name: Any) -> None:
    with pytest.raises(TypeError, match="stream: "):
        stream(seed, name)


@pytest.mark.parametrize(
    ("schedule", "middle"),
    [(linear, 5.5), (cosine, 5.5), (exponential, math.sqrt(10))],
)
def test_from_start_to_end(schedule: Any, middle: float) -> None:
    assert schedule(0, 10.0, 1.0, 100) == 10
    assert schedule(50, 10.0, 1.0, 100) == pytest.approx(middle)
    assert schedule(100, 10.0, 1.0, 100) == 1
    assert schedule(101, 10.0, 1.0, 100) == 1
    assert schedule(10**9, 0.3, 0.1, 7) == 0.1
    falling = [schedule(count, 10.0, 1.0, 100) for count in range(101)]
    assert falling == sorted(falling, reverse=True)
    with pytest.raises(ValueError, match="over must be > 0, found 0"):
        schedule(1, 10.0, 1.0, 0)


def test_cosine_is_flat_at_both_ends() -> None:
    assert cosine(1, 1.0, 0.0, 1_000) == pytest.approx(1, abs=1e-5)
    assert cosine(250, 1.0, 0.0, 1_000) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_exponential_keeps_its_factor() -> None:
    values = [exponential(count, 1.0, 0.5, 10) for count in range(11)]
    assert [b / a for a, b in pairwise(values)] == [pytest.approx(0.5**0.1)] * 10
    assert exponential(5, -4.0, -1.0, 10) == -2
    for start, end in ((0.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="of one sign and not 0"):
            exponential(1, start, end, 10)


def test_piecewise() -> None:
    points = ((10, 1.0), (20, 0.5), (20, 0.2), (40, 0.0))
    values = {0: 1.0, 10: 1.0, 15: 0.75, 20: 0.2, 30: 0.1, 40: 0.0, 50: 0.0}
    assert {count: piecewise(count, *points) for count in values} == pytest.approx(values)
    assert piecewise(3, (5, 2.0)) == 2
    with pytest.raises(ValueError, match="at least one point"):
        piecewise(1)
    with pytest.raises(ValueError, match=r"in the order of their counts, found \[2, 1\]"):
        piecewise(1, (2, 0.0), (1, 0.0))
