"""`RayEnv`, on a local cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import RayEnv, SerialEnv

from tests.envs.batched.faulty import ChattyError, Faulty
from tests.envs.batched.test_results import cartpole, same

pytestmark = pytest.mark.slow


@pytest.fixture
def make(ray_cluster: None) -> Iterator[Any]:
    """Makes environments, which are closed after the test. An actor takes seconds to start: make few."""
    made: list[RayEnv[Any]] = []

    def make(*args: Any, **kwargs: Any) -> RayEnv[Any]:
        made.append(RayEnv(*args, ray_options={"num_cpus": 0.1}, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close(raise_if_closed=False)


def test_results_and_partial_steps(make: Any) -> None:
    rollouts = []
    actors = make(2, cartpole)
    for env in (actors, SerialEnv(2, cartpole)):
        assert env.set_seed(4) == 6
        torch.manual_seed(0)
        rollouts.append(env.rollout(40, break_when_any_done=False))
    same(*rollouts)

    root = actors.rand_action(actors.reset()).set("_step", torch.tensor([False, True]))
    after = actors.step(root)["next"]
    assert torch.equal(after["observation"][0], root["observation"][0])
    assert after["reward"].flatten().tolist() == [0, 1]


def test_exceptions_then_closed_then_opened_then_killed(make: Any) -> None:
    env = make(2, [Faulty, partial(Faulty, 2, "chatty")])
    assert not env.is_closed
    assert env.plus(2) == [2, 2]
    with pytest.raises(ChattyError) as caught:
        env.rollout(2)
    assert "in environment 1 of 2" in caught.value.__notes__[0]
    assert env.rollout(1).shape == (2, 1)

    env.close()
    root = env.reset()
    assert root["observation"].shape == (2, 1)

    os.kill(env.pid()[1], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="environment 1 of 2: its actor is gone"):
        env.step(env.rand_action(root))
    assert env.is_closed


def test_an_environment_that_cannot_be_made(make: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        make(1, partial(Faulty, "construct"))
