"""`HERReplayBuffer` draws goals as Stable-Baselines3's does: the same ratio, and the same goals as often."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.data import HERReplayBuffer, LazyTensorStorage
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

sb3 = pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

LENGTH, EPISODES, ENVS = 5, 6, 2
BATCH = 1000


class Counted(gymnasium.Env):  # type: ignore[misc, name-defined]
    """What is achieved behind each step is a number of its own; goals are -1."""

    observation_space = spaces.Dict(
        {
            name: spaces.Box(-1, 10_000, (1,), np.float32)
            for name in ("observation", "achieved_goal", "desired_goal")
        }
    )
    action_space = spaces.Discrete(2)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return (desired_goal - achieved_goal)[..., 0]


def number(step: int, env: int) -> float:
    return float(env * 1000 + step)


def theirs(strategy: str) -> Any:
    """Their buffer with all episodes, and its sample as `(number of the step, goal, reward)`."""
    env = sb3.common.vec_env.DummyVecEnv([Counted] * ENVS)
    buffer = sb3.HerReplayBuffer(
        LENGTH * EPISODES * ENVS, env.observation_space, env.action_space, env, n_envs=ENVS,
        n_sampled_goal=4, goal_selection_strategy=strategy,
    )  # fmt: skip
    for step in range(LENGTH * EPISODES):
        now = np.array([[number(step, env)] for env in range(ENVS)], np.float32)
        goal = np.full_like(now, -1)
        done = np.full(ENVS, step % LENGTH == LENGTH - 1)
        before, after = (
            {"observation": now, "achieved_goal": one, "desired_goal": goal} for one in (now - 1, now)
        )
        buffer.add(before, after, np.zeros((ENVS, 1)), np.full(ENVS, -5.0), done, [{} for _ in range(ENVS)])
    np.random.seed(0)  # noqa: NPY002
    sample = buffer.sample(BATCH)
    found = sample.observations
    return torch.cat([found["observation"], found["desired_goal"], sample.rewards], -1)


def ours(strategy: Any) -> Any:
    buffer = HERReplayBuffer(
        reward, strategy=strategy, storage=LazyTensorStorage(LENGTH * EPISODES * ENVS, ndim=2),
        batch_size=BATCH, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    step = torch.arange(LENGTH * EPISODES, dtype=torch.float32)
    now = torch.stack([step + 1000 * env for env in range(ENVS)]).unsqueeze(-1)
    goal, done = torch.full_like(now, -1), now % 1000 % LENGTH == LENGTH - 1
    after = {"achieved_goal": now, "desired_goal": goal, "reward": torch.full_like(now, -5), "done": done}
    buffer.extend(
        TensorDict({"observation": now, "desired_goal": goal, "next": after}, [ENVS, LENGTH * EPISODES])
    )
    sample = buffer.sample()
    return torch.cat([sample["observation"], sample["desired_goal"], sample["next", "reward"]], -1)


def reward(step: TensorDictBase) -> Tensor:
    found: Tensor = step["desired_goal"] - step["next", "achieved_goal"]
    return found


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_goals_are_drawn_alike(strategy: str) -> None:
    """The ratio of 4 goals for each of one's own is 0.8; how often a goal is so many steps ahead of a step is alike."""
    found = []
    for sample in (theirs(strategy), ours(strategy)):
        changed = sample[:, 1] >= 0
        assert changed.sum() == 0.8 * BATCH
        assert (sample[~changed, 2] == -5).all()
        sample = sample[changed]
        assert torch.equal(sample[:, 2], sample[:, 1] - sample[:, 0])
        assert torch.equal(sample[:, 0] // LENGTH, sample[:, 1] // LENGTH)  # of one episode
        places = torch.stack([sample[:, 0] % LENGTH, sample[:, 1] % LENGTH], -1).long().tolist()
        found.append(Counter(map(tuple, places)))
    them, us = found
    assert them.keys() == us.keys()
    for place in them:  # 0.8 * BATCH draws: a deviation is the root of so many, at most 13 of 160
        assert abs(them[place] - us[place]) < 5 * (them[place] + us[place]) ** 0.5, place


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_the_distribution_of_goals(strategy: str) -> None:
    """Of a step at place `t` of `LENGTH`: any from there on, the last, any, each equally often."""
    sample = ours(strategy)
    sample = sample[sample[:, 1] >= 0]
    for at in range(LENGTH):
        goals = (sample[sample[:, 0] % LENGTH == at][:, 1] % LENGTH).long()
        allowed = {"future": range(at, LENGTH), "final": (LENGTH - 1,), "episode": range(LENGTH)}[strategy]
        counts = torch.bincount(goals, minlength=LENGTH)
        mean = len(goals) / len(allowed)
        assert all(abs(int(counts[one]) - mean) < 5 * mean**0.5 for one in allowed)
        assert int(counts.sum()) == sum(int(counts[one]) for one in allowed)
