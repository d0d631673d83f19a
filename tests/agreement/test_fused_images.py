"""A chain over the library's transforms of images, lives and limits: fused as one after another."""

from __future__ import annotations

from pathlib import Path

import pytest
import specgen_std.transforms as library
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv

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
      - EndOfLifeTransform
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
        library.EndOfLifeTransform(),
        library.ToTensorImage(["pixels"]),
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
