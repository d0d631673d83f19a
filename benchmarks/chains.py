"""Chains on Gymnasium's CartPole: of five transforms, against TorchRL's dynamic one and against no chain at all; and of one
that learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.transforms import CommonStatistics
from specgen_std.chains.cartpole import CartPoleGymTrain
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import (
    Compose,
    GymEnv,
    InitTracker,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from benchmarks.gymnasium import GivenActions
from benchmarks.harness import Budget, Row, Work, paired
from benchmarks.made import made

STEPS = 200
SIDE_BY_SIDE = 8
LEARNING = """
specgen: 1
import: [specgen_std/envs/cartpole, specgen_std/transforms/reward_sum, specgen_std/transforms/vec_norm]
chains:
  Plain: {env: CartPoleGym, transforms: [RewardSum]}
  Normed: {env: CartPoleGym, transforms: [RewardSum, {VecNorm: {in_keys: [observation]}}]}
"""


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds of the processor a step through `step_and_maybe_reset`, and through `rollout` with random actions and a policy.

    The rows of Gymnasium alone say how many times faster than TorchRL the chain would be if it cost nothing.
    """
    ours, theirs = CartPoleGymTrain(), _torchrl_chain()
    for env in (ours, theirs):
        env.set_seed(0)
    raw, alone = _work(_RawLoop()), _work(GivenActions("CartPole-v1"))
    found = []
    for label, work, limit in (("step_and_maybe_reset", _Stepping, 12), ("rollout(200)", _Rolling, 50)):
        mine, peer = (_work(work(env)) for env in (ours, theirs))
        found.append((label, mine))
        yield paired(f"CartPoleGymTrain, {label}", mine, peer, budget, limit=limit)
        yield paired(f"Gymnasium CartPole-v1 alone, {label}", alone, peer, budget)
    policy = _policy()
    yield paired(
        "CartPoleGymTrain, rollout(200) with a 2x64 policy",
        _work(_Acting(ours, policy)),
        _work(_Acting(theirs, policy)),
        budget,
        limit=8,
    )
    for label, mine in found:
        yield paired(f"CartPoleGymTrain, {label}", mine, raw, budget, peer_name="raw Gymnasium loop")
    yield from _learning_rows(budget)


def _learning_rows(budget: Budget) -> Iterator[Row]:
    """A chain with a normaliser that learns: against TorchRL's, and eight side by side against the chain without it."""
    chains = made("learning", LEARNING, "CartPole-v1")
    theirs = TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True),
        Compose(RewardSum(), VecNormV2(in_keys=["observation"])),
    )
    for label, work in (("step_and_maybe_reset", _Stepping), ("rollout(200)", _Rolling)):
        mine, peer = (_work(work(env)) for env in (chains.Normed(), theirs))
        yield paired(f"CartPole with VecNorm, {label}", mine, peer, budget)
    batches = (SerialEnv(SIDE_BY_SIDE, create) for create in (CommonStatistics(chains.Normed), chains.Plain))
    frames = STEPS * SIDE_BY_SIDE
    mine, peer = (_work(_Stepping(env), frames) for env in batches)
    yield paired(
        f"CartPole with VecNorm, {SIDE_BY_SIDE} side by side, step_and_maybe_reset",
        mine,
        peer,
        budget,
        peer_name="without VecNorm",
    )


def _work(call: Callable[[], object], steps: int = STEPS) -> Work:
    """Steps in one thread, whose time is that of the processor, on both sides: what else runs does not count."""
    return Work(call, steps, clock=time.process_time)


def _torchrl_chain() -> TransformedEnv:
    return TransformedEnv(
        GymEnv("CartPole-v1", categorical_action_encoding=True),
        Compose(
            InitTracker(),
            StepCounter(),
            RewardSum(),
            ObservationNorm(loc=0.0, scale=torch.tensor([0.5, 0.5, 2.5, 0.5]), in_keys=["observation"]),
            RewardScaling(loc=0.0, scale=0.1),
        ),
    )


class _Best(nn.Module):
    """The action of the highest score."""

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.argmax(-1)


def _policy() -> TensorDictModule:
    layers = nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2), _Best()
    return TensorDictModule(nn.Sequential(*layers), in_keys=["observation"], out_keys=["action"])


class _Acting:
    """Rollouts by a policy, without gradients."""

    def __init__(self, env: Any, policy: TensorDictModule) -> None:
        self.env, self.policy = env, policy

    def __call__(self) -> None:
        with torch.no_grad():
            self.env.rollout(STEPS, self.policy, break_when_any_done=False)


class _Rolling:
    """Rollouts of random actions, resetting where an episode ends."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __call__(self) -> None:
        self.env.rollout(STEPS, break_when_any_done=False)


class _Stepping:
    """Random steps that go on from call to call, resetting where an episode ends."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.current = env.reset()

    def __call__(self) -> None:
        env, current = self.env, self.current
        for _ in range(STEPS):
            _, current = env.step_and_maybe_reset(env.rand_action(current))
        self.current = current


class _RawLoop:
    """What a script without tensordicts does: sample, step, reset when over."""

    def __init__(self) -> None:
        self.env = gymnasium.make("CartPole-v1")
        self.env.reset(seed=0)
        self.env.action_space.seed(0)

    def __call__(self) -> None:
        env = self.env
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
