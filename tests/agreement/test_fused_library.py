"""Chains over the library's transforms of frames, keys, rewards and shapes: fused as one after another."""

from __future__ import annotations

from pathlib import Path

import pytest
import specgen_std.transforms as library
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/transforms/frames
  - specgen_std/transforms/keys
  - specgen_std/transforms/rewards
  - specgen_std/transforms/shapes
  - specgen_std/transforms/step_counter
chains:
  Fused:
    env: Pendulum
    transforms:
      - StepCounter: {max_steps: 7}
      - RewardClipping: {clamp_min: -5.0}
      - TargetReturn: {target_return: 3.0}
      - UnsqueezeTransform: {dim: -1, in_keys: [th, thdot]}
      - CatTensors: {in_keys: [observation, th], out_key: vector}
      - CatFrames: {N: 3, dim: -1, in_keys: [vector], padding: constant, padding_value: 0.5}
      - TimeMaxPool: {T: 2, in_keys: [vector]}
      - PermuteTransform: {dims: [-1], in_keys: [vector]}
      - RenameTransform: {in_keys: [step_count, thdot], out_keys: [thdot, age]}
      - ExcludeTransform: {in_keys: [target_return]}
      - SignTransform
    allow: [SG311]
"""


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_the_library_fused(batch: tuple[int, ...], tmp_path: Path) -> None:
    chain = Compose(
        library.StepCounter(max_steps=7),
        library.RewardClipping(clamp_min=-5.0),
        library.TargetReturn(3.0),
        library.UnsqueezeTransform(-1, ["th", "thdot"]),
        library.CatTensors(["observation", "th"], out_key="vector"),
        library.CatFrames(3, -1, ["vector"], padding="constant", padding_value=0.5),
        library.TimeMaxPool(["vector"], T=2),
        library.PermuteTransform([-1], ["vector"]),
        library.RenameTransform(["step_count", "thdot"], ["thdot", "age"]),
        library.ExcludeTransform("target_return"),
        library.SignTransform(),
    )
    dynamic = TransformedEnv(Pendulum(batch_size=batch), chain)
    files = generate({"chain.yaml": SCHEMA}, "library_fused")
    with imported(files, "library_fused", tmp_path) as package:
        fused = package.Fused(batch_size=batch)
        check_env_specs(fused)
        check_env_specs(dynamic)
        same_specs(fused, dynamic)
        drive(fused, dynamic)
