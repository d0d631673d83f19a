"""`RayEnv`. Actors take seconds to start: each test makes few, and asks much of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import RayEnv, SerialEnv, check_env_specs
from specgen_runtime.testing import (
    check_batch_size,
    check_partial_resets,
    check_preset_next,
    check_random_actions,
    check_rollout_is_stepping,
)

from tests.conformance.walks import Walk
from tests.envs.batched.faulty import ChattyError, Faulty
from tests.envs.batched.test_results import same

pytestmark = pytest.mark.slow


@pytest.fixture
def make(ray_cluster: None) -> Iterator[Any]:
    """Makes environments, which are closed after the test."""
    made: list[RayEnv[Any]] = []

    def make(*args: Any, **kwargs: Any) -> RayEnv[Any]:
        made.append(RayEnv(*args, ray_options={"num_cpus": 0.1}, **kwargs))
        return made[-1]

    yield make
    for env in made:
        env.close(raise_if_closed=False)


def test_results_partial_steps_and_the_contract(make: Any) -> None:
    walk = partial(Walk, batch_size=())
    rollouts = []
    actors = make(2, walk)
    for env in (actors, SerialEnv(2, walk)):
        assert env.set_seed(4) == 6
        torch.manual_seed(0)
        rollouts.append(env.rollout(20, break_when_any_done=False))
    same(*rollouts)

    root = actors.rand_action(actors.reset()).set("_step", torch.tensor([False, True]))
    after = actors.step(root)["next"]
    assert torch.equal(after["position"][0], root["position"][0])
    assert after["count"].flatten().tolist() == [0, 1]
    assert (after["reward"].flatten() != 0).tolist() == [False, True]

    check_env_specs(actors, seed=0)
    check_random_actions(actors)
    check_partial_resets(actors)
    check_batch_size(actors)
    check_preset_next(actors)
    check_rollout_is_stepping(lambda: actors, steps=12)
    assert actors.is_closed


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


def test_after_a_shutdown_of_ray(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says so here is `is_initialized` alone: other tests need the cluster."""
    ray = pytest.importorskip("ray")
    env = make(1, Faulty)
    with monkeypatch.context() as patched:
        patched.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(RuntimeError, match="environment 0 of 1: its actor is gone"):
            env.reset()
    assert env.is_closed
    env.start()
    ray.kill(env._pool._actors[0])
    with monkeypatch.context() as patched:
        patched.setattr(ray, "is_initialized", lambda: False)
        env.close()
    assert env.is_closed
