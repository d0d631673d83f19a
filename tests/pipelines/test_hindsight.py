"""Trainings whose replay buffer replaces goals by what was achieved: native, Gymnasium's and Python's environments."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.data import HERReplayBuffer
from specgen_runtime.training import read_log
from specgen_std.pipelines import dqn_bit_flip
from torch import Tensor

from specgen.project.gymnasium_lock import record
from tests.pipelines.small import small_config
from tests.support import generate, imported

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

HEAD = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/transforms/step_counter]
"""
WALK = """\
envs:
  Walk:
    doc: Walk on a grid; the name of each episode goes along.
    params: {near: {default: 1.0, doc: how near is there}}
    state: {x: int64, y: int64, goal: "int64[2]", name: float32}
    action: {action: categorical(4)}
    observation: {observation: "float32[2]", achieved_goal: "float32[3]", desired_goal: "float32[3]"}
    reset: {x: "randint(0, 9)", y: "randint(0, 9)", goal: "randint(0, 9, shape=2)", name: "uniform(0, 1)"}
    step:
      reached: clip(x + where(action == 0, 1, 0) - where(action == 1, 1, 0), 0, 8)
      next.x: reached
      next.y: clip(y + where(action == 2, 1, 0) - where(action == 3, 1, 0), 0, 8)
      distance: abs(reached - goal[0]) + abs(next.y - goal[1])
      terminated: distance <= near
      reward: "where(terminated, 0.0, -1.0)"
    observe:
      observation: "stack(x / 8, y / 8)"
      achieved_goal: "stack(float32(x), float32(y), name)"
      desired_goal: "concat(float32(goal), stack(name))"
chains:
  WalkTrain: {env: Walk, transforms: [{StepCounter: {max_steps: 7}}]}
"""
GYM = """\
envs:
  Rail:
    doc: A cart on a rail.
    gymnasium: {id: RailOfTests-v0, categorical_action_encoding: true}
"""
PYTHON = """\
envs:
  Cart:
    doc: A cart of a class.
    python: {class: goals_of_tests:Cart, stateful: true}
    action: {action: categorical(2)}
    observation: {observation: "float32[1]", achieved_goal: "float32[1]", desired_goal: "float32[1]"}
"""
PIPELINE = """\
pipelines:
  DQNNAME:
    env: ENV
    networks: {value_network: {mlp: [8], in: [observation, desired_goal]}}
    policy: {explore: {epsilon_greedy: {eps: 0.5}}}
    loss: {DQNLoss: {double_dqn: true}}
    value_estimator: {td0: {gamma: 0.98}}
    data: {replay: {num_envs: 4, num_steps: 10, capacity: 1_000, batch_size: 500, warm_up_frames: 500, updates: 10, sampler: {hindsight: HINDSIGHT}}}
    target_updater: {soft: {tau: 0.02}}
    optimizer: {adam: {lr: 1.0e-3}}
    evaluate: {episodes: 4}
    stop: {frames: 600}
"""
BY_HAND = '{strategy: final, reward: "goals_of_tests:reward"ENDS}'
ENDS = ', terminated: "goals_of_tests:reached"'
SCHEMAS = {
    "walk": WALK + PIPELINE.replace("env: ENV", "env: {WalkTrain: {near: 0.5}}").replace("HINDSIGHT", "{}"),
    "gym": GYM + PIPELINE.replace("ENV", "Rail").replace("HINDSIGHT", BY_HAND.replace("ENDS", ENDS)),
    "python": PYTHON + PIPELINE.replace("ENV", "Cart").replace("HINDSIGHT", BY_HAND.replace("ENDS", "")),
}


class Rail(gymnasium.Env):  # type: ignore[misc, name-defined]
    """A cart is moved to a place; episodes end there."""

    observation_space = spaces.Dict(
        {
            name: spaces.Box(-8, 8, (1,), np.float32)
            for name in ("observation", "achieved_goal", "desired_goal")
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = 0.0, float(self.np_random.integers(-3, 4))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += 2 * int(action) - 1
        there = self.place == self.goal
        return self._observation(), 0.0 if there else -1.0, there, False, {}

    def _observation(self) -> dict[str, Any]:
        place, goal = (np.array([one], np.float32) for one in (self.place, self.goal))
        return {"observation": place, "achieved_goal": place, "desired_goal": goal}


gymnasium.register("RailOfTests-v0", Rail, max_episode_steps=8)


class Cart:
    """As `Rail`, but episodes end after eight steps alone."""

    def __init__(self, setup: Any) -> None:
        self.random = torch.Generator()

    def reset(self, seed: int | None) -> Any:
        if seed is not None:
            self.random.manual_seed(seed)
        self.place, self.steps = 0.0, 0
        self.goal = float(torch.randint(-3, 4, (), generator=self.random))
        made = importlib.import_module("with_goals.python")
        return made.CartReset(observation=[self.place], achieved_goal=[self.place], desired_goal=[self.goal])

    def step(self, action: Tensor) -> Any:
        self.place += 2 * int(action) - 1
        self.steps += 1
        made = importlib.import_module("with_goals.python")
        return made.CartStep(
            observation=[self.place], achieved_goal=[self.place], desired_goal=[self.goal],
            reward=0.0 if self.place == self.goal else -1.0, terminated=False, truncated=self.steps == 8,
        )  # fmt: skip


def reward(achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """What `Rail` and `Cart` reward."""
    return (achieved_goal == desired_goal).float() - 1


def reached(achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """Where `Rail` ends."""
    return (achieved_goal == desired_goal).all(-1)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    lock = {"RailOfTests-v0": record("RailOfTests-v0", {})}
    files = generate(
        {f"{name}.yaml": HEAD + text.replace("NAME", name.title()) for name, text in SCHEMAS.items()},
        "with_goals",
        lock,
    )
    sys.modules["goals_of_tests"] = sys.modules[__name__]
    with imported(files, "with_goals", tmp_path_factory.mktemp("with_goals")) as made:
        yield made
    del sys.modules["goals_of_tests"]


def trained(package: ModuleType, name: str, folder: Path) -> Any:
    module: Any = importlib.import_module(f"{package.__name__}.{name}")
    return module.train(getattr(module, f"DQN{name.title()}Config")(), folder=folder)


def test_goals_are_of_the_same_episode(package: ModuleType, tmp_path: Path) -> None:
    """And rewards and ends are those that the environment has for them, of the parameters that it has."""
    parts = trained(package, "walk", tmp_path / "run")
    assert type(parts.buffer) is HERReplayBuffer
    stored = parts.buffer[:].transpose(0, 1)  # steps first, as in the buffer
    assert stored.shape == (150, 4)
    sample = parts.buffer.sample()
    before = stored["desired_goal"][tuple(sample["index"].unbind(-1))]
    assert torch.equal(
        sample["desired_goal"][:, 2], before[:, 2]
    )  # of no other episode, of no other environment
    assert torch.equal(sample["next", "desired_goal"], sample["desired_goal"])
    changed = (sample["desired_goal"] != before).any(-1)
    assert changed[:400].float().mean() > 0.5
    assert not changed[400:].any()
    there = (sample["next", "achieved_goal"] == sample["desired_goal"]).all(-1)
    assert torch.equal(sample["next", "terminated"].squeeze(-1), there)
    assert torch.equal(sample["next", "reward"].squeeze(-1), there.float() - 1)
    assert there[:400].float().mean() > 0.2
    kept = stored["next", "done"][tuple(sample["index"].unbind(-1))]
    assert torch.equal(sample["next", "done"], kept | sample["next", "terminated"])
    parts.env.params = parts.env.params._replace(near=1.0)  # what a reward reads may change in training
    near = parts.buffer.sample()
    far = (near["next", "achieved_goal"] - near["desired_goal"])[:400, :2].abs().sum(-1) > 1
    assert torch.equal(near["next", "terminated"].squeeze(-1)[:400], ~far)
    assert (near["next", "reward"].squeeze(-1)[:400] == -far.float()).all()


@pytest.mark.parametrize("name", ["gym", "python"])
def test_functions_that_are_named(package: ModuleType, name: str, tmp_path: Path) -> None:
    parts = trained(package, name, tmp_path / "run")
    sample = parts.buffer.sample()
    there = sample["next", "achieved_goal"] == sample["desired_goal"]
    assert torch.equal(sample["next", "reward"], there.float() - 1)
    assert there[:400].float().mean() > 0.1
    stored = parts.buffer[:].transpose(0, 1)["next", "terminated"][tuple(sample["index"].unbind(-1))]
    ends = there[:400] if name == "gym" else stored[:400]  # without a function flags stay
    assert torch.equal(sample["next", "terminated"], torch.cat([ends, stored[400:]]))


def test_goals_are_reached_with_hindsight_alone(tmp_path: Path) -> None:
    """12 bits, after 48 batches; evaluations count ten steps here. Without hindsight hardly a goal is reached."""
    returns = {}
    for her_ratio in (0.8, 0.0):
        config = dqn_bit_flip.DQNBitFlipConfig(
            her_ratio=her_ratio, total_frames=5_760, evaluate_every=5_760, stop_return=0.0
        )
        folder = tmp_path / str(her_ratio)
        dqn_bit_flip.train(config, folder=folder)
        returns[her_ratio] = read_log(folder / "log.csv")[-1]["evaluation"]
    assert returns[0.8] > -6.5
    assert returns[0.0] < -9.5


def test_the_ratio_is_a_hyper_parameter() -> None:
    parts = dqn_bit_flip.DQNBitFlip(small_config(dqn_bit_flip, her_ratio=0.25))
    assert parts.buffer.her_ratio == 0.25
    with pytest.raises(ValueError, match=r"her_ratio must be <= 1, got 1\.5"):
        small_config(dqn_bit_flip, her_ratio=1.5)
