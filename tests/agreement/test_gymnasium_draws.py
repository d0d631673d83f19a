"""What chains over Gymnasium can't compute for all times at once is computed step by step."""

from __future__ import annotations

from pathlib import Path

import torch
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import PendulumGym
from specgen_std.transforms import StepCounter

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/step_counter]
transforms:
  Wind:
    in: {x: {each: [observation], type: "float32[...]"}}
    out: {seen: {each: x, name: "windy_{}", type: like(x)}}
    reset: {seen: x}
    step: {next.seen: "next.x + 0.1 * normal(0, 1, like=next.x)"}
chains:
  Windy: {env: PendulumGym, transforms: [Wind, {StepCounter: {max_steps: 7}}]}
"""


def test_draws_at_each_step(tmp_path: Path) -> None:
    with imported(generate({"a.yaml": SCHEMA}, "gymnasium_draws"), "gymnasium_draws", tmp_path) as package:
        found = []
        for env in (package.Windy(), TransformedEnv(PendulumGym(), Compose(package.Wind(), StepCounter(7)))):
            env.set_seed(2)
            torch.manual_seed(4)
            found.append(env.rollout(20, break_when_any_done=False))
    assert_identical(found[0], found[1], "rollout")
    assert not torch.equal(found[0]["next", "windy_observation"], found[0]["next", "observation"])
