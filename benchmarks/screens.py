"""A chain of images, as for Atari, on a source that costs nothing: fused and dynamic, against TorchRL's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import torch
from specgen_runtime.envs import GymEnv
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms.frames import CatFrames
from specgen_std.transforms.images import GrayScale, Resize, ToTensorImage
from specgen_std.transforms.reward_sum import RewardSum
from specgen_std.transforms.step_counter import StepCounter
from torch.nn.functional import interpolate
from torchrl import envs as theirs
from torchrl.data import Bounded

from benchmarks.harness import Budget, Row, Work, paired
from benchmarks.made import made

STEPS = 20
SHAPE = (210, 160, 3)
NAME = "SpecgenScreen-v0"
SCHEMA = f"""
specgen: 1
import: [specgen_std/transforms/images, specgen_std/transforms/frames, specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter]
envs:
  Screen:
    gymnasium: {{id: {NAME}, categorical_action_encoding: true}}
chains:
  ScreenTrain:
    env: Screen
    transforms:
      - ToTensorImage: {{in_keys: [observation]}}
      - GrayScale: {{in_keys: [observation]}}
      - Resize: {{w: 84, in_keys: [observation]}}
      - CatFrames: {{N: 4, dim: -3, in_keys: [observation]}}
      - RewardSum
      - StepCounter
"""


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds a step: ToTensorImage, GrayScale, Resize to 84 x 84, four frames, RewardSum, StepCounter on a screen of Atari's size."""
    gymnasium.register(NAME, entry_point=_Screen, disable_env_checker=True)
    fused, peer = made("screens", SCHEMA, NAME).ScreenTrain(), _theirs()
    for name, ours, limits in (("fused", fused, (3, 2.5)), ("dynamic", _dynamic(), (None, None))):
        yield paired(
            f"images {name}, step_and_maybe_reset",
            Work(_Stepping(ours), STEPS),
            Work(_Stepping(peer), STEPS),
            budget,
            limit=limits[0],
        )
        yield paired(
            f"images {name}, rollout({STEPS})",
            Work(_rollout(ours), STEPS),
            Work(_rollout(peer), STEPS),
            budget,
            limit=limits[1],
        )


class _Screen(gymnasium.Env[Any, Any]):
    """Screens of noise, which are drawn beforehand."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self._screens = np.random.default_rng(0).integers(0, 256, (16, *SHAPE), dtype=np.uint8)
        self._at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at = 0
        return self._screens[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at += 1
        return self._screens[self._at % 16], 1.0, self._at >= 1000, False, {}


def _dynamic() -> Any:
    keys = ["pixels"]
    images = (ToTensorImage(in_keys=keys), GrayScale(in_keys=keys), Resize(84, in_keys=keys))
    chain = (*images, CatFrames(4, -3, in_keys=keys))
    env = GymEnv(NAME, categorical_action_encoding=True)
    return TransformedEnv(env, Compose(*chain, RewardSum(), StepCounter()))


class _Gray(theirs.GrayScale):
    """Theirs, where torchvision is not installed: its formula, as for the next."""

    def _apply_transform(self, observation: torch.Tensor) -> torch.Tensor:
        red, green, blue = observation.unbind(-3)
        return (0.2989 * red + 0.587 * green + 0.114 * blue).to(observation.dtype).unsqueeze(-3)


class _Resize(theirs.ObservationTransform):
    """What theirs does to floats."""

    def __init__(self, size: int, in_keys: list[str]) -> None:
        super().__init__(in_keys=in_keys, out_keys=in_keys)
        self.size = size

    def _apply_transform(self, observation: torch.Tensor) -> torch.Tensor:
        size = (self.size, self.size)
        return interpolate(observation[None], size, mode="bilinear", antialias=True)[0]

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        for key in self.in_keys:
            space = observation_spec[key].space
            low, high = self._apply_transform(space.low), self._apply_transform(space.high)
            observation_spec[key] = Bounded(low, high, low.shape, dtype=low.dtype)
        return observation_spec


def _theirs() -> Any:
    keys = ["pixels"]
    images = (theirs.ToTensorImage(in_keys=keys), _Gray(in_keys=keys), _Resize(84, in_keys=keys))
    chain = (*images, theirs.CatFrames(4, -3, in_keys=keys))
    env = theirs.GymEnv(NAME, categorical_action_encoding=True)
    return theirs.TransformedEnv(env, theirs.Compose(*chain, theirs.RewardSum(), theirs.StepCounter()))


def _rollout(env: Any) -> Any:
    return lambda: env.rollout(STEPS, break_when_any_done=False)


class _Stepping:
    """Random steps that go on from call to call."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.current = env.reset()

    def __call__(self) -> None:
        for _ in range(STEPS):
            _, self.current = self.env.step_and_maybe_reset(self.env.rand_action(self.current))
