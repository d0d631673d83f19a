"""Two environments with `python:`, and right classes for them; tests put wrong methods in their place."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.support import generate, imported

PACKAGE = "python_envs_rl"
MODULE = "python_envs_user"

SCHEMA = """
specgen: 1
import:
  - specgen_std/transforms/double_to_float
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
envs:
  Walk:
    doc: Two walkers on a line.
    python: python_envs_user:Walk
    params: {speed: {default: 0.5, above: 0}}
    dims: {size: 3}
    consts:
      drift: {type: "float64[3]", value: [-1.0, 0.0, 1.0]}
    groups: {walkers: {agents: 2}}
    state:
      x: float64 in [-10, 10]
      walkers.y: float32[size]
    action:
      push: float64[1] in [-1, 1]
      walkers.action: categorical(3)
    observation:
      observation: float32[2]
    reward: [reward, walkers.reward]
  Counter:
    python: {class: "python_envs_user:Counter", stateful: true}
    params: {length: 5}
    action:
      action: categorical(2)
    observation:
      count: int64[1] in [0, 100]
      level: float32
chains:
  WalkTrain:
    env: Walk
    transforms:
      - DoubleToFloat: {in_keys: [x], in_keys_inv: [push]}
      - StepCounter: {max_steps: 7}
      - RewardSum
  CounterTrain:
    env: Counter
    transforms: [RewardScaling: {loc: 0.5, scale: 2.0}, StepCounter: {max_steps: 3}, RewardSum]
"""

CLASSES = """
from __future__ import annotations

import random

import torch
from torch import Tensor

from python_envs_rl.envs import (
    CounterReset, CounterSetup, CounterStep, WalkProtocol, WalkReset, WalkSetup, WalkState, WalkStep
)


class Walk(WalkProtocol):
    made = 0
    rows: list[int] = []

    def __init__(self, setup: WalkSetup) -> None:
        Walk.made += 1
        self.setup = setup

    def reset(self, rows: int, generator: torch.Generator) -> WalkReset:
        self.rows.append(rows)
        x = torch.rand(rows, dtype=torch.float64, generator=generator)
        y = torch.rand(rows, 2, self.setup.dims.size, generator=generator)
        return WalkReset(x=x, walkers_y=y, observation=self.look(x, y))

    def step(
        self, state: WalkState, push: Tensor, walkers_action: Tensor, generator: torch.Generator
    ) -> WalkStep:
        self.rows.append(len(push))
        noise = torch.rand(push.shape, dtype=torch.float64, generator=generator)
        x = state.x + self.setup.params.speed * (push + noise)[:, 0]
        y = state.walkers_y + self.setup.consts.drift[walkers_action, None].float()
        return WalkStep(
            x=x.clamp(-10, 10),
            walkers_y=y,
            observation=self.look(x, y),
            reward=x.float(),
            walkers_reward=y.sum(-1),
            terminated=x.abs() > 3,
            truncated=torch.zeros_like(x, dtype=torch.bool),
            walkers_terminated=y[..., 0] > 3,
            walkers_truncated=y[..., 0] < -3,
        )

    def look(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([x.float(), y.mean((-1, -2))], -1)


class Counter:
    seeds: list[int | None] = []
    closed = 0

    def __init__(self, setup: CounterSetup) -> None:
        self.length = setup.params.length
        self.random = random.Random(0)

    def reset(self, seed: int | None) -> CounterReset:
        self.seeds.append(seed)
        if seed is not None:
            self.random.seed(seed)
        self.count = 0
        self.level = self.random.random()
        return CounterReset([self.count], self.level)

    def step(self, action: Tensor) -> CounterStep:
        self.count += 1
        self.level += int(action) * self.random.random()
        return CounterStep([self.count], self.level, reward=self.level, terminated=self.count == self.length)

    def close(self) -> None:
        Counter.closed += 1
"""


@contextmanager
def envs(
    folder: Path, classes: str = CLASSES, load: bool = True, schema: str = SCHEMA
) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The generated module and the module with the user's classes; it is not loaded if `load` is False."""
    (folder / f"{MODULE}.py").write_text(classes, encoding="utf-8")
    try:
        with imported(generate({"envs.yaml": schema}, PACKAGE), PACKAGE, folder) as package:
            generated = importlib.import_module(f"{package.__name__}.envs")
            yield generated, importlib.import_module(MODULE) if load else generated
    finally:
        sys.modules.pop(MODULE, None)
