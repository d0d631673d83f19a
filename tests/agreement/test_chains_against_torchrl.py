"""Fused chains against TorchRL's TransformedEnv and transforms: the same dynamics, seeds and actions, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import assert_identical
from specgen_std import chains, envs
from tensordict import TensorDict, TensorDictBase

from tests.sizes import each_time_or_thorough

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
data = pytest.importorskip("torchrl.data", reason="the extra `peers`")

pytestmark = pytest.mark.peers

STEPS = each_time_or_thorough(120, 500)
BATCHES: list[tuple[int, ...]] = [(), (1,), (3,), (7,), (4, 3)]


class Dynamics(theirs.EnvBase):  # type: ignore[misc, name-defined]
    """A native environment of the library behind TorchRL's base class: its machinery, our dynamics."""

    def __init__(self, env: EnvBase[Any]) -> None:
        super().__init__(batch_size=env.batch_size)
        self.ours = env
        self.observation_spec = self._composite(env.full_observation_spec)
        self.state_spec = self._composite(env.full_state_spec)
        self.action_spec = data.Unbounded(env.action_spec.shape, dtype=env.action_spec.dtype)
        self.reward_spec = data.Unbounded(env.reward_spec.shape)
        self.done_spec = self._composite(env.full_done_spec)

    def _composite(self, spec: Any) -> Any:
        leaves = {key: data.Unbounded(leaf.shape, dtype=leaf.dtype) for key, leaf in spec.items()}
        return data.Composite(leaves, shape=self.batch_size)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return self.ours.reset()

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        root = TensorDict(dict(tensordict.exclude("next").items()), self.batch_size)
        following: TensorDictBase = self.ours.step(root)["next"]
        return following

    def _set_seed(self, seed: int | None) -> None:
        self.ours.set_seed(seed)


def usual(max_steps: int) -> list[Any]:
    return [theirs.InitTracker(), theirs.StepCounter(max_steps=max_steps), theirs.RewardSum()]


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "CartPoleTrain": (chains.CartPoleTrain, envs.CartPole, 500),
    "PendulumTrain": (chains.PendulumTrain, envs.Pendulum, 200),
    "MountainCarTrain": (chains.MountainCarTrain, envs.MountainCar, 200),
    "MountainCarContinuousTrain": (chains.MountainCarContinuousTrain, envs.MountainCarContinuous, 999),
    "AcrobotTrain": (chains.AcrobotTrain, envs.Acrobot, 500),
}


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_native(name: str, batch: tuple[int, ...]) -> None:
    chain, env, max_steps = CASES[name]
    ours = chain(batch_size=batch)
    inner = env(batch_size=batch)
    peer = theirs.TransformedEnv(Dynamics(inner), theirs.Compose(*usual(max_steps)))
    ours.set_seed(4)
    inner.set_seed(4)
    drive(ours, peer)


def test_gymnasium_backed() -> None:
    ours = chains.CartPoleGymTrain()
    peer = theirs.TransformedEnv(
        theirs.GymEnv("CartPole-v1", categorical_action_encoding=True),
        theirs.Compose(
            theirs.InitTracker(),
            theirs.StepCounter(),
            theirs.RewardSum(),
            theirs.ObservationNorm(
                loc=0.0, scale=torch.tensor([0.5, 0.5, 2.5, 0.5]), in_keys=["observation"]
            ),
            theirs.RewardScaling(loc=0.0, scale=0.1),
        ),
    )
    peer.set_seed(9, static_seed=True)
    ours.set_seed(9)
    ours.reset()  # TorchRL's set_seed resets; ours seeds the next reset
    drive(ours, peer, partial=False)
    ours.close()
    peer.close()


def drive(ours: Any, peer: Any, *, partial: bool = True) -> None:
    torch.manual_seed(2)
    root, other = ours.reset(), peer.reset()
    assert_identical(root, other, "the first reset")
    for step in range(STEPS):
        root = ours.rand_action(root)
        other["action"] = root["action"].clone()
        transition, root = ours.step_and_maybe_reset(root)
        expected, other = peer.step_and_maybe_reset(other)
        assert_identical(transition, expected, f"step {step}")
        assert_identical(root.exclude("action"), other.exclude("action"), f"after step {step}")
        if partial and step % 37 == 5:
            mask = torch.rand(*ours.batch_size, 1) < 0.4
            if not mask.any():
                continue
            root, other = ours.reset(root.set("_reset", mask)), peer.reset(other.set("_reset", mask.clone()))
            assert_identical(root.exclude("action"), other.exclude("action"), f"the reset after step {step}")
        if partial and step % 149 == 80:
            root, other = ours.reset(), peer.reset()
            assert_identical(root, other, f"the full reset after step {step}")
