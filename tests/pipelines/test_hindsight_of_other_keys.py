"""Goals in hindsight under other names: nested ones, those that a chain gives, and those of agents."""

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
from specgen_runtime.training import read_log
from torch import Tensor

from specgen.project.gymnasium_lock import record
from tests.pipelines.test_hindsight import HEAD, PIPELINE, WALK
from tests.support import generate, imported

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

KEYS = {
    "nested": (("task", "place"), ("hand", "place")),
    "renamed": (("robot", "wanted"), ("reached",)),
    "gym": (("robot", "wanted"), ("robot", "reached")),
}
"""The goal, and what was achieved."""

GYM = """\
envs:
  Slide:
    doc: A slide on a rail.
    gymnasium: {id: SlideOfTests-v0, categorical_action_encoding: true}
"""
RENAMING = (
    "{StepCounter: {max_steps: 7}}, "
    "{RenameTransform: {in_keys: [desired_goal, achieved_goal], out_keys: [robot.wanted, reached]}}"
)
CREW = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/transforms/step_counter, specgen_std/transforms/reward_sum]
envs:
  Flips:
    doc: Each of two agents flips its bits, one at a step, until they are those of its goal.
    dims: {n: 7}
    groups: {flipper: {agents: 2}}
    state: {flipper.bits: "bool[n]", flipper.goal: "bool[n]"}
    action: {flipper.action: categorical(n)}
    observation: {flipper.observation: "float32[n]", flipper.achieved_goal: "float32[n]", flipper.desired_goal: "float32[n]"}
    reset: {flipper.bits: "bernoulli(0.5, shape=(flipper, n))", flipper.goal: "bernoulli(0.5, shape=(flipper, n))"}
    step:
      next.flipper.bits: flipper.bits != (arange(n)[None, :] == flipper.action[:, None])
      reached: all(next.flipper.bits == flipper.goal, axis=-1)
      flipper.reward: "where(reached, 0.0, -1.0)"
      flipper.terminated: reached
    observe:
      flipper.observation: float32(flipper.bits)
      flipper.achieved_goal: float32(flipper.bits)
      flipper.desired_goal: float32(flipper.goal)
chains:
  FlipsTrain: {env: Flips, transforms: [{StepCounter: {max_steps: 7}}, {RewardSum: {in_keys: [flipper.reward]}}]}
pipelines:
  Flipping:
    env: FlipsTrain
    networks: {value_network: {mlp: [128], in: [flipper.observation, flipper.desired_goal]}}
    policy: {explore: {epsilon_greedy: {eps: "linear(1.0, 0.05, over=2_000)"}}}
    loss: {flipper: {DQNLoss: {double_dqn: true}}}
    value_estimator: {td0: {gamma: 0.9}}
    data: {replay: {num_envs: 8, num_steps: 7, capacity: 50_000, batch_size: 128, warm_up_frames: 512, updates: 16, sampler: {hindsight: {}}}}
    target_updater: {soft: {tau: 0.02}}
    optimizer: {adam: {lr: 1.0e-3}}
    evaluate: {every: 3_584, episodes: 200}
    stop: {frames: 3_584}
"""
TEAM = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/transforms/step_counter]
envs:
  Lift:
    doc: Two robots lift a plate to a height, together.
    groups: {robot: {agents: 2}}
    reward: [reward]
    state: {height: int64, goal: int64}
    action: {robot.action: categorical(3)}
    observation: {robot.observation: "float32[1]", achieved_goal: "float32[1]", desired_goal: "float32[1]"}
    reset: {height: "randint(0, 9)", goal: "randint(0, 9)"}
    step:
      next.height: clip(height + sum(robot.action - 1), 0, 8)
      reward: "where(next.height == goal, 0.0, -1.0)"
      terminated: next.height == goal
    observe:
      robot.observation: "ones((robot, 1)) * height / 8"
      achieved_goal: stack(float32(height))
      desired_goal: stack(float32(goal))
chains:
  LiftTrain: {env: Lift, transforms: [{StepCounter: {max_steps: 8}}]}
pipelines:
  Lifting:
    env: LiftTrain
    networks: {value_network: {mlp: [64], in: [robot.observation, desired_goal]}}
    policy: {explore: {epsilon_greedy: {eps: 0.3}}}
    loss: {robot: {DQNLoss: {}}}
    value_estimator: {td0: {gamma: 0.9}}
    data: {replay: {num_envs: 8, num_steps: 8, capacity: 50_000, batch_size: 500, warm_up_frames: 512, updates: 16, sampler: {hindsight: {}}}}
    target_updater: {soft: {tau: 0.02}}
    optimizer: {adam: {lr: 1.0e-3}}
    evaluate: {every: 1_024, episodes: 100}
    stop: {frames: 2_048}
"""


def schemas() -> dict[str, str]:
    nested = WALK.replace("achieved_goal", "hand.place").replace("desired_goal", "task.place")
    renamed = WALK.replace("{StepCounter: {max_steps: 7}}", RENAMING).replace("Walk", "Stroll")
    texts = {
        "nested": (nested, "{goal_key: task.place, achieved_goal_key: hand.place}"),
        "renamed": (renamed, "{goal_key: robot.wanted, achieved_goal_key: reached}"),
        "gym": (
            GYM,
            "{goal_key: robot.wanted, achieved_goal_key: robot.reached, strategy: final,"
            ' reward: "other_goals_of_tests:reward"}',
        ),
    }
    found = {"crew.yaml": CREW, "team.yaml": TEAM}
    for name, (text, hindsight) in texts.items():
        env = {"gym": "Slide", "nested": "{WalkTrain: {near: 0.5}}", "renamed": "{StrollTrain: {near: 0.5}}"}[
            name
        ]
        pipeline = PIPELINE.replace("ENV", env).replace("HINDSIGHT", hindsight).replace("NAME", name.title())
        pipeline = pipeline.replace("desired_goal", ".".join(KEYS[name][0]))
        head = HEAD.replace("step_counter]", "step_counter, specgen_std/transforms/keys]")
        found[f"{name}.yaml"] = head + text + pipeline
    return found


class Slide(gymnasium.Env):  # type: ignore[misc, name-defined]
    """A slide is moved to a place; its goals stand in a Dict within the observation."""

    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(-8, 8, (1,), np.float32),
            "robot": spaces.Dict(
                {name: spaces.Box(-8, 8, (1,), np.float32) for name in ("reached", "wanted")}
            ),
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = 0.0, float(self.np_random.integers(-3, 4))
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += 2 * int(action) - 1
        return self._observation(), float(self.place == self.goal) - 1, False, False, {}

    def _observation(self) -> dict[str, Any]:
        place, goal = (np.array([one], np.float32) for one in (self.place, self.goal))
        return {"observation": place, "robot": {"reached": place, "wanted": goal}}


gymnasium.register("SlideOfTests-v0", Slide, max_episode_steps=8)


def reward(achieved_goal: Tensor, desired_goal: Tensor) -> Tensor:
    """What `Slide` rewards."""
    return (achieved_goal == desired_goal).float() - 1


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    lock = {"SlideOfTests-v0": record("SlideOfTests-v0", {})}
    files = generate(schemas(), "other_goals", lock)
    sys.modules["other_goals_of_tests"] = sys.modules[__name__]
    with imported(files, "other_goals", tmp_path_factory.mktemp("other_goals")) as made:
        yield made
    del sys.modules["other_goals_of_tests"]


@pytest.mark.parametrize("name", KEYS)
def test_goals_are_of_the_same_episode(package: ModuleType, name: str, tmp_path: Path) -> None:
    """And rewards are those for them."""
    module: Any = importlib.import_module(f"{package.__name__}.{name}")
    parts = module.train(getattr(module, f"DQN{name.title()}Config")(), folder=tmp_path / "run")
    goal, achieved = KEYS[name]
    stored = parts.buffer[:].transpose(0, 1)  # steps first, as in the buffer
    sample = parts.buffer.sample()
    before = stored[goal][tuple(sample["index"].unbind(-1))]
    changed = (sample[goal] != before).any(-1)
    assert changed[:400].float().mean() > 0.5
    assert not changed[400:].any()
    assert torch.equal(sample["next", *goal], sample[goal])
    if name != "gym":  # the third number is of the episode
        assert torch.equal(sample[goal][:, 2], before[:, 2])
    there = (sample["next", *achieved] == sample[goal]).all(-1)
    assert torch.equal(sample["next", "reward"].squeeze(-1), there.float() - 1)
    assert there[:400].float().mean() > 0.1
    if name != "gym":
        assert torch.equal(sample["next", "terminated"].squeeze(-1), there)


def test_each_agent_has_the_goal_that_it_achieved_itself(package: ModuleType) -> None:
    module: Any = importlib.import_module(f"{package.__name__}.crew")
    parts = module.Flipping(module.FlippingConfig(num_envs=16, num_steps=8, batch_size=500))
    parts.buffer.extend(next(iter(parts.collector)).select(*parts.stored).transpose(0, 1))
    stored, sample = parts.buffer[:].transpose(0, 1), parts.buffer.sample()
    index = tuple(sample["index"].unbind(-1))
    before = stored["flipper", "desired_goal"][index]
    assert before.shape == (500, 2, 7)
    goal = sample["flipper", "desired_goal"]
    assert torch.equal(sample["next", "flipper", "desired_goal"], goal)
    assert torch.equal(goal[400:], before[400:])
    achieved = stored["next", "flipper", "achieved_goal"]
    for agent in range(2):  # what it achieved at one moment behind the step, in its environment
        of_env = achieved[:, index[1], agent]
        assert (of_env == goal[:, agent]).all(-1)[:, :400].any(0).all()
    there = (sample["next", "flipper", "achieved_goal"] == goal).all(-1, keepdim=True)
    assert torch.equal(sample["next", "flipper", "reward"], there.float() - 1)
    assert torch.equal(sample["next", "flipper", "terminated"], there)
    assert 0.1 < there[:400].float().mean() < 0.9
    kept = stored["next", "flipper", "done"][index]
    assert torch.equal(sample["next", "flipper", "done"], kept | there)
    assert torch.equal(sample["next", "done"], stored["next", "done"][index])


def test_a_team_has_one_goal(package: ModuleType) -> None:
    """At the root, where its reward is; the end is that of each agent, whose loss reads it."""
    module: Any = importlib.import_module(f"{package.__name__}.team")
    parts = module.Lifting(module.LiftingConfig(num_envs=16, batch_size=500))
    parts.buffer.extend(next(iter(parts.collector)).select(*parts.stored).transpose(0, 1))
    sample = parts.buffer.sample()
    there = sample["next", "achieved_goal"] == sample["desired_goal"]
    assert torch.equal(sample["next", "reward"], there.float() - 1)
    assert torch.equal(sample["next", "robot", "terminated"], there.unsqueeze(-2).expand(500, 2, 1))
    assert 0.1 < there[:400].float().mean() < 0.9
    assert parts.robot_loss(sample)["loss"].isfinite()


def test_agents_reach_their_goals_with_hindsight_alone(package: ModuleType, tmp_path: Path) -> None:
    """Of 7 bits half differ in the mean. An agent that is there goes on until its fellow is, and is charged again."""
    module: Any = importlib.import_module(f"{package.__name__}.crew")
    returns = {}
    for her_ratio in (0.8, 0.0):
        folder = tmp_path / str(her_ratio)
        module.train(module.FlippingConfig(her_ratio=her_ratio), folder=folder)
        returns[her_ratio] = read_log(folder / "log.csv")[-1]["flipper_evaluation"]
    assert returns[0.8] > -5.2
    assert returns[0.0] < -6.5
