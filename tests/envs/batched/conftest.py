"""Batches of either kind, closed after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from specgen_runtime.envs import BatchedEnv, ParallelEnv, SerialEnv

Make = Callable[..., BatchedEnv[Any]]


def _closing(kind: Any) -> Iterator[Make]:
    made: list[BatchedEnv[Any]] = []

    def make(*args: Any, **kwargs: Any) -> BatchedEnv[Any]:
        env = kind(*args, **kwargs)
        made.append(env)
        return env

    yield make
    for env in made:
        env.close(raise_if_closed=False)


@pytest.fixture(params=[SerialEnv, ParallelEnv], ids=["serial", "parallel"])
def batch(request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from _closing(request.param)


@pytest.fixture
def serial() -> Iterator[Make]:
    yield from _closing(SerialEnv)


@pytest.fixture
def parallel() -> Iterator[Make]:
    yield from _closing(ParallelEnv)
