"""NaN and infinity from the dynamics: found in every kind of environment, for those who ask (`check_finite`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymWrapper
from specgen_runtime.transforms import TransformedEnv
from specgen_std import chains, envs, transforms

from tests.envs.counting import Counting

FAULTY = 2
"""The step at which the dynamics fail, from 0."""


class Diverging(Counting):
    """The second of three environments observes NaN."""

    def _step(self, tensordict: Any) -> Any:
        following = super()._step(tensordict)
        wrong = following["count"] == FAULTY + 1
        wrong[0::2] = False
        return following.set("observation", torch.where(wrong, torch.nan, following["observation"]))


def diverging(env: type[Any], field: str) -> Callable[..., Any]:
    """A generated environment whose state is infinite at one step, in its second instance."""

    class Generated(env):  # type: ignore[misc]
        taken = 0

        def _fresh(self, *args: Any) -> Any:
            self.taken = 0
            return super()._fresh(*args)

        def _advance(self, *args: Any) -> Any:
            following = super()._advance(*args)
            self.taken += 1
            if self.taken != FAULTY + 1:
                return following
            value = getattr(following, field).clone()
            value[1] = torch.inf
            return following._replace(**{field: value})

    return partial(Generated, batch_size=(3,))


class Broken(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A simulator that gives NaN at one step."""

    taken = 0

    def reset(self, **kwargs: Any) -> Any:
        self.taken = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        self.taken += 1
        if self.taken == FAULTY + 1:
            observation = np.full_like(observation, np.nan)
        return (observation, *rest)


def simulator() -> Any:
    return GymWrapper(Broken(gymnasium.make("Pendulum-v1")))


ENVS: dict[str, tuple[Callable[[], Any], str]] = {
    "by hand": (partial(Diverging, batch_size=(3,), limit=50), r"'observation' of environment \[1\]"),
    "generated": (diverging(envs.Pendulum, "thdot"), r"'observation' of environment \[1\]"),
    "chain": (diverging(chains.PendulumTrain, "thdot"), r"'observation' of environment \[1\]"),
    "Gymnasium": (simulator, "'observation'"),
    "transformed": (
        lambda: TransformedEnv(Diverging(batch_size=(3,), limit=50), transforms.StepCounter()),
        r"'observation' of environment \[1\]",
    ),
    "transformed Gymnasium": (lambda: TransformedEnv(simulator(), transforms.RewardSum()), "'observation'"),
}

each_env = pytest.mark.parametrize("kind", ENVS)
each_run = pytest.mark.parametrize(
    "run",
    [{}, {"break_when_any_done": False}, {"callback": lambda env, td: None}],
    ids=["any", "on", "step by step"],
)


@each_run
@each_env
@pytest.mark.parametrize("with_policy", [False, True], ids=["random", "policy"])
def test_rollouts(kind: str, run: dict[str, Any], with_policy: bool) -> None:
    make, found = ENVS[kind]
    env = make()
    env.check_finite = True
    policy = (lambda td: td.update(env.full_action_spec.rand())) if with_policy else None
    with pytest.raises(
        FloatingPointError, match=rf"{found} at step {FAULTY} must be finite, found (nan|inf)"
    ):
        env.rollout(6, policy, **run)
    assert env.rollout(FAULTY, policy, **run).shape[-1] == FAULTY
    env.close()


@each_env
def test_steps(kind: str) -> None:
    make, found = ENVS[kind]
    env = make()
    env.check_finite = True
    root = env.reset()
    for _ in range(FAULTY):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
    with pytest.raises(FloatingPointError, match=rf"{found} must be finite, found (nan|inf)"):
        env.step(env.rand_action(root))
    env.reset()
    env.close()


@each_env
def test_nobody_asked(kind: str) -> None:
    env = ENVS[kind][0]()
    data = env.rollout(6)
    floats = [value for value in data.values(True, True) if value.is_floating_point()]
    assert not all(bool(value.isfinite().all()) for value in floats)
    env.close()
