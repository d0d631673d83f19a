"""Statistics that are learned of the sizes and the dimensions of entries."""

from __future__ import annotations

from pathlib import Path

import torch
from specgen_runtime.transforms import TransformedEnv

from tests.support import generate, imported
from tests.transforms.envs import Walk

SCHEMA = """\
specgen: 1
transforms:
  Numbers:
    doc: Count the numbers that were seen, and those that are larger than the reward.
    in:
      x: {each: [position], type: "float32[...]"}
      z: {key: position, type: "float32[n]"}
      reward: {key: reward, type: "float32[]"}
    out: {y: {each: x, name: "{}_share", type: "float32[...]"}}
    buffers:
      seen: {each: x, type: float64, init: 0.0}
      larger: {each: x, type: "float64[...]", init: 0.0}
    update:
      next.seen: seen + n * batch_count()
      next.larger: "larger + batch_sum(where(x > reward, 1.0, 0.0))"
    map: {y: "float32(larger / max(seen, 1)) * x"}
"""


def test_sizes_and_ranks(tmp_path: Path) -> None:
    with imported(generate({"a.yaml": SCHEMA}, "sized"), "sized", tmp_path) as package:
        for batch in ((), (3,), (4, 3)):
            env = TransformedEnv(Walk(*batch), transform := package.Numbers())
            env.reset()  # has no rewards
            torch.manual_seed(0)
            data = env.rollout(5, auto_reset=True)["next"]
            learned = transform.state_dict()
            assert learned["seen|position"] == data["position"].numel()
            larger = (data["position"] > data["reward"]).reshape(-1, 3).sum(0)
            assert torch.equal(learned["larger|position"], larger.double())
