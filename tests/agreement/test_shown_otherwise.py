"""What later transforms show under another name or value is still what the environment and loops compute with."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import FrameSkipTransform, RenameTransform

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/transforms/keys, specgen_std/transforms/time]
envs:
  Walk:
    state: {x: "float32[2] in [-5, 5]", over: float32}
    action: {action: "float32[2] in [-1, 1]"}
    observation: {seen: "float32[2]"}
    reset: {x: "uniform(-1, 1, shape=2)", over: 0}
    step:
      next.x: clip(x + action, -5, 5)
      next.over: over + next.x[0]
      reward: next.over - x[1]
      terminated: any(abs(next.x) > 3)
    observe: {seen: x + over}
transforms:
  Largest:
    in: {x: {each: [x], type: "float[...]"}}
    out: {largest: {each: x, name: same}}
    carry: [largest]
    reset: {largest: x}
    step: {next.largest: "max(largest, next.x)"}
chains:
  Shown: {env: Walk, transforms: [Largest]}
  Repeated: {env: Walk, transforms: [Largest, {FrameSkipTransform: {frame_skip: 3}}], allow: [SG328]}
  Renamed:
    env: Walk
    transforms: [{FrameSkipTransform: {frame_skip: 3}}, {RenameTransform: {in_keys: [reward], out_keys: [gain]}}]
  Behind: {env: Walk, transforms: [{FrameSkipTransform: {frame_skip: 2}}, Largest]}
"""


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_values_that_a_later_transform_shows_otherwise(batch: tuple[int, ...], tmp_path: Path) -> None:
    files = generate({"chain.yaml": SCHEMA}, "rewritten_state")
    with imported(files, "rewritten_state", tmp_path) as package:
        chains = {
            package.Shown: Compose(package.Largest()),
            package.Repeated: Compose(package.Largest(), FrameSkipTransform(3)),
            package.Renamed: Compose(FrameSkipTransform(3), RenameTransform(["reward"], ["gain"])),
            package.Behind: Compose(FrameSkipTransform(2), package.Largest()),
        }
        for chain, transforms in chains.items():
            fused = chain(batch_size=batch)
            dynamic = TransformedEnv(package.Walk(batch_size=batch), transforms)
            check_env_specs(fused)
            same_specs(fused, dynamic)
            drive(fused, dynamic)
