"""Small chains that were once built wrongly: fused as one transform after another, with the same specs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std import transforms as library
from specgen_std.envs import Pendulum

from tests.agreement.test_random_chains import same_chains
from tests.support import generate, imported

Make = Callable[[ModuleType], list[Transform]]

OWN = """\
specgen: 1
import:
  - specgen_std/envs/pendulum
  - specgen_std/transforms/frames
  - specgen_std/transforms/keys
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/rewards
  - specgen_std/transforms/shapes
  - specgen_std/transforms/time
transforms:
  Numbers:
    in: {xs: {all: [th, thdot], type: "float32[...]"}}
    out: {joined: {key: joined}}
    map: {joined: "concat(*xs)"}
chains:
  Fused:
    env: Pendulum
    transforms:
"""
CHAINS: dict[str, tuple[str, Make]] = {
    "one_frame_dropped_before_a_loop": (
        """\
      - CatFrames: {N: 1, dim: -1, in_keys: [observation], out_keys: [framed]}
      - ExcludeTransform: {in_keys: [framed]}
      - FrameSkipTransform: {frame_skip: 2}
    allow: [SG328]
""",
        lambda _: [
            library.CatFrames(1, -1, ["observation"], ["framed"]),
            library.ExcludeTransform("framed"),
            library.FrameSkipTransform(2),
        ],
    ),
    "bounds_through_a_loop": (
        """\
      - ObservationNorm: {loc: 0.1, scale: [0.3, 2.0, -3.0], in_keys: [observation]}
      - FrameSkipTransform: {frame_skip: 2}
      - CatFrames: {N: 3, dim: -1, in_keys: [observation], padding: constant, padding_value: 5.0}
      - TimeMaxPool: {T: 2, in_keys: [observation]}
      - CatTensors: {in_keys: [thdot, observation], out_key: whole, del_keys: false}
      - UnsqueezeTransform: {dim: -1, in_keys: [whole]}
      - RewardClipping: {clamp_min: -1.0}
""",
        lambda _: [
            library.ObservationNorm(0.1, [0.3, 2.0, -3.0], ["observation"]),
            library.FrameSkipTransform(2),
            library.CatFrames(3, -1, ["observation"], padding="constant", padding_value=5.0),
            library.TimeMaxPool(["observation"], T=2),
            library.CatTensors(["thdot", "observation"], out_key="whole", del_keys=False),
            library.UnsqueezeTransform(-1, ["whole"]),
            library.RewardClipping(clamp_min=-1.0),
        ],
    ),
    "numbers_behind_one_another": ("      - Numbers\n", lambda own: [own.Numbers()]),
}


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", CHAINS)
def test_a_small_chain(name: str, batch: tuple[int, ...], tmp_path: Path) -> None:
    text, make = CHAINS[name]
    with imported(generate({"chain.yaml": OWN + text}, "small"), "small", tmp_path) as package:
        fused = package.Fused(batch_size=batch)
        dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(*make(package)))
        same_chains(fused, dynamic)
