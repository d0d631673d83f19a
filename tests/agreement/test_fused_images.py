"""A chain over the library's transforms of images, lives and limits: fused as one after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import specgen_std.transforms as library
import torch
from specgen_runtime.envs import GymEnv, check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv

from specgen.project.gymnasium_lock import record
from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/transforms/episodes
  - specgen_std/transforms/images
  - specgen_std/transforms/keys
  - specgen_std/transforms/rewards
envs:
  Game:
    state:
      moment: int64 in [0, 100]
    action:
      action: float32[1] in [-1, 1]
    observation:
      pixels: uint8[4, 5, 3]
      lives: int64
      success: bool
      costs: float32[3]
    reset:
      moment: 0
    step:
      next.moment: min(moment + 1, 100)
      terminated: moment >= 8
      reward: action[0]
    observe:
      pixels: uint8((moment * 31 + reshape(arange(60), (4, 5, 3)) * 4) % 256)
      lives: 3 - moment // 3
      success: moment % 4 == 3
      costs: float32(moment) * stack(0.5, -1.0, 2.0)
chains:
  Fused:
    env: Game
    transforms:
      - EndOfLifeTransform: {done_key: terminated}
      - ToTensorImage: {in_keys: [pixels]}
      - GrayScale: {in_keys: [pixels], out_keys: [gray]}
      - Crop: {w: 4, h: 2, top: 1, in_keys: [pixels], out_keys: [cut]}
      - CenterCrop: {w: 3, in_keys: [gray]}
      - Resize: {w: 4, h: 3, in_keys: [pixels], out_keys: [small]}
      - Resize: {w: 2, interpolation: nearest, in_keys: [gray], out_keys: [near]}
      - Resize: {w: 7, interpolation: bicubic, in_keys: [gray], out_keys: [sharp]}
      - ClipTransform: {in_keys: [costs], low: 1.0, high: 4.0}
      - Stack: {in_keys: [moment, lives], out_key: numbers}
"""


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_images_fused(batch: tuple[int, ...], tmp_path: Path) -> None:
    chain = Compose(
        library.EndOfLifeTransform(done_key="terminated"),
        library.ToTensorImage(in_keys=["pixels"]),
        library.GrayScale(["pixels"], ["gray"]),
        library.Crop(4, 2, top=1, in_keys=["pixels"], out_keys=["cut"]),
        library.CenterCrop(3, in_keys=["gray"]),
        library.Resize(4, 3, in_keys=["pixels"], out_keys=["small"]),
        library.Resize(2, interpolation="nearest", in_keys=["gray"], out_keys=["near"]),
        library.Resize(7, interpolation="bicubic", in_keys=["gray"], out_keys=["sharp"]),
        library.ClipTransform(["costs"], low=1.0, high=4.0),
        library.Stack(["moment", "lives"], "numbers"),
    )
    files = generate({"chain.yaml": SCHEMA}, "images_fused")
    with imported(files, "images_fused", tmp_path) as package:
        fused = package.Fused(batch_size=batch)
        dynamic = TransformedEnv(package.Game(batch_size=batch), chain)
        check_env_specs(fused)
        check_env_specs(dynamic)
        same_specs(fused, dynamic)
        drive(fused, dynamic)


@pytest.mark.parametrize("steps", [1, 30])
def test_screens_of_a_simulator(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain as for Atari, over Gymnasium: fused as one after another."""
    spec = {SCREEN: gymnasium.envs.registration.EnvSpec(SCREEN, entry_point=Noise, disable_env_checker=True)}
    monkeypatch.setattr(gymnasium, "registry", gymnasium.registry | spec)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry)
    keys = ["pixels"]
    chain = Compose(
        library.ToTensorImage(in_keys=keys),
        library.GrayScale(keys),
        library.Resize(12, 9, in_keys=keys),
        library.CatFrames(4, -3, keys),
        library.RewardSum(),
        library.StepCounter(),
    )
    files = generate({"screens.yaml": SCREENS}, "screens_fused", {SCREEN: record(SCREEN, {})})
    with imported(files, "screens_fused", tmp_path) as package:
        fused = package.Screens()
        dynamic = TransformedEnv(GymEnv(SCREEN, categorical_action_encoding=True), chain)
        data = []
        for env in (fused, dynamic):
            env.set_seed(0)
            torch.manual_seed(0)
            data.append(env.rollout(steps, break_when_any_done=False))
    found, expected = data
    for one, other in ((found, expected), (found["next"], expected["next"])):
        assert one["observation"].shape[1:] == (4, 9, 12)
        assert torch.equal(one["observation"], other["pixels"])
        assert torch.equal(one["step_count"], other["step_count"])
        assert torch.equal(one["episode_reward"], other["episode_reward"])


SCREEN = "SpecgenNoise-v0"
SCREENS = f"""
specgen: 1
import:
  - specgen_std/transforms/images
  - specgen_std/transforms/frames
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
envs:
  Screen:
    gymnasium: {{id: {SCREEN}, categorical_action_encoding: true}}
chains:
  Screens:
    env: Screen
    transforms:
      - ToTensorImage: {{in_keys: [observation]}}
      - GrayScale: {{in_keys: [observation]}}
      - Resize: {{w: 12, h: 9, in_keys: [observation]}}
      - CatFrames: {{N: 4, dim: -3, in_keys: [observation]}}
      - RewardSum
      - StepCounter
"""


class Noise(gymnasium.Env[Any, Any]):
    """Screens that are drawn from the seed; episodes of eleven steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (21, 16, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)
    moment = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.moment = 0
        return self._screen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.moment += 1
        return self._screen(), float(action), self.moment >= 11, False, {}

    def _screen(self) -> Any:
        rows = np.arange(21 * 16 * 3).reshape(21, 16, 3)
        return ((rows * 7 + self.moment * 31) % 256).astype(np.uint8)
