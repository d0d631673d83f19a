"""Renamed outputs in a chain over Gymnasium, where rewards and observations come from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import CartPoleGym
from specgen_std.transforms import ObservationNorm, RewardScaling, RewardSum, StepCounter
from tensordict import TensorDictBase

from tests.agreement.test_random_chains import same_specs, shown
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import:
  - specgen_std/envs/cartpole
  - specgen_std/transforms/observation_norm
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
chains:
  Renamed:
    env: CartPoleGym
    transforms:
      - RewardScaling: {loc: 0.5, scale: 2.0, out_keys: [stats.scaled]}
      - RewardSum
      - StepCounter: {max_steps: 9, truncated_key: late, step_count_key: age}
      - ObservationNorm: {loc: 0.5, scale: 2.0, in_keys: [observation], out_keys: [raw_observation]}
      - ObservationNorm: {loc: 0.5, scale: 2.0, in_keys: [observation]}
      - RewardScaling: {loc: 0.5, scale: 2.0}
    allow: [SG311]
"""


def dynamic() -> TransformedEnv:
    return TransformedEnv(
        CartPoleGym(),
        Compose(
            RewardScaling(0.5, 2.0, out_keys=[("stats", "scaled")]),
            RewardSum(in_keys=["reward", ("stats", "scaled")]),
            StepCounter(9, truncated_key="late", step_count_key="age"),
            ObservationNorm(0.5, 2.0, in_keys=["observation"], out_keys=["raw_observation"]),
            ObservationNorm(0.5, 2.0, in_keys=["observation"]),
            RewardScaling(0.5, 2.0),
        ),
    )


def test_steps_and_rollouts(tmp_path: Path) -> None:
    with imported(
        generate({"a.yaml": SCHEMA}, "gymnasium_renamed"), "gymnasium_renamed", tmp_path
    ) as package:
        found, expected = run(package.Renamed()), run(dynamic())
        same_specs(package.Renamed(), dynamic())
    for ours, theirs, what in zip(
        found, expected, ("a step", "a policy's rollout", "random actions"), strict=True
    ):
        assert_identical(shown(ours), shown(theirs), what)
    assert found[1]["next", "late"].any()
    assert torch.equal(found[1]["next", "late"], found[1]["next", "done"])


def run(env: Any) -> list[TensorDictBase]:
    made = []
    torch.manual_seed(0)
    env.set_seed(3)
    made.append(env.step(env.reset().set("action", torch.tensor(1))))
    made.append(
        env.rollout(40, lambda td: td.set("action", torch.randint(0, 2, ())), break_when_any_done=False)
    )
    made.append(env.rollout(40, break_when_any_done=False))
    env.close()
    return made
