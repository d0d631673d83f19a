"""Rollouts of images: kept as they come, and computed in memory that nobody reads again; the values are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms.frames import CatFrames
from specgen_std.transforms.images import GrayScale, ToTensorImage
from specgen_std.transforms.step_counter import StepCounter

from specgen.project.gymnasium_lock import record
from tests.support import generate, imported

NAME = "SpecgenLargeScreen-v0"
SHAPE = (96, 112, 3)
LENGTH = 21
SCHEMA = f"""
specgen: 1
import: [specgen_std/transforms/images, specgen_std/transforms/frames, specgen_std/transforms/step_counter]
envs:
  Screen:
    gymnasium: {{id: {NAME}, categorical_action_encoding: true}}
chains:
  Frames:
    env: Screen
    transforms:
      - ToTensorImage: {{in_keys: [observation]}}
      - GrayScale: {{in_keys: [observation]}}
      - CatFrames: {{N: 3, dim: -3, in_keys: [observation]}}
      - StepCounter
  Image:
    env: Screen
    transforms: [{{ToTensorImage: {{in_keys: [observation]}}}}, StepCounter]
"""


class Screen(gymnasium.Env[Any, Any]):
    """Noise, in one array that is written at each step; an episode has 21 of them."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self._draws, self._screen, self._at = np.random.default_rng(0), np.zeros(SHAPE, np.uint8), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._at = 0
        return self._drawn(0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._at += 1
        return self._drawn(int(action)), 1.0, self._at == LENGTH, False, {}

    def _drawn(self, more: int) -> Any:
        self._screen[:] = self._draws.integers(0, 250, SHAPE)
        self._screen += np.uint8(more)
        return self._screen


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    gymnasium.register(NAME, Screen, disable_env_checker=True)  # type: ignore[arg-type]
    files = generate({"screens.yaml": SCHEMA}, "screens_package", gymnasium={NAME: record(NAME, {})})
    assert ".add_(" in files["screens.py"]
    with imported(files, "screens_package", tmp_path_factory.mktemp("screens")):
        from screens_package import screens  # type: ignore[import-not-found]

        yield screens


def stepped(env: Any, steps: int, root: Any = None) -> Any:
    """The rollout of random actions, step by step."""
    torch.manual_seed(2)
    root, records = env.reset() if root is None else root, []
    for _ in range(steps):
        transition, root = env.step_and_maybe_reset(env.rand_action(root))
        records.append(transition.clone())
    return torch.stack(records)


def rolled(env: Any, steps: int, **options: Any) -> Any:
    torch.manual_seed(2)
    return env.rollout(steps, **options)


@pytest.mark.parametrize("name", ["Frames", "Image"])
def test_rollouts_are_the_steps(name: str, made: Any) -> None:
    cls = getattr(made, name)
    found = rolled(cls(), 50, break_when_any_done=False)
    assert found["next", "done"].sum() == 2
    assert_identical(found, stepped(cls(), 50))


@pytest.mark.parametrize("name", ["Frames", "Image"])
def test_rollouts_of_unknown_length(name: str, made: Any) -> None:
    cls = getattr(made, name)
    found = rolled(cls(), 50)
    assert found.shape == (LENGTH,)
    assert_identical(found, stepped(cls(), LENGTH))


@pytest.mark.parametrize("name", ["Frames", "Image"])
def test_rollouts_from_a_root(name: str, made: Any) -> None:
    one, other = getattr(made, name)(), getattr(made, name)()
    found = rolled(one, 30, auto_reset=False, tensordict=one.reset(), break_when_any_done=False)
    assert_identical(found, stepped(other, 30, other.reset()))


def test_fused_is_dynamic(made: Any) -> None:
    keys = ["pixels"]
    chain = (
        ToTensorImage(in_keys=keys),
        GrayScale(in_keys=keys),
        CatFrames(3, -3, in_keys=keys),
        StepCounter(),
    )
    dynamic = TransformedEnv(GymEnv(NAME, categorical_action_encoding=True), Compose(*chain))
    found, expected = rolled(made.Frames(), 30, break_when_any_done=False), stepped(dynamic, 30)
    for part in (found, expected), (found["next"], expected["next"]):
        torch.testing.assert_close(part[0]["observation"], part[1]["pixels"], rtol=0, atol=0)
        assert torch.equal(part[0]["step_count"], part[1]["step_count"])


def test_nothing_recorded_shares_memory(made: Any) -> None:
    found = rolled(made.Frames(), 5)
    before = found.clone()
    found["observation"].zero_()
    assert_identical(found["next"], before["next"])
    found["next", "observation"][2].zero_()
    assert torch.equal(found["next", "observation"][3], before["next", "observation"][3])
