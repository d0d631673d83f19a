"""Chains whose transforms raise `truncated` and leave `done` be: each way of stepping takes that, as the classes do."""

from __future__ import annotations

from pathlib import Path

import torch
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import StepCounter

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/step_counter]
chains:
  Counted: {env: Pendulum, transforms: [{StepCounter: {max_steps: 3, update_done: false}}]}
"""


def test_steps_of_some_rows(tmp_path: Path) -> None:
    files = generate({"chain.yaml": SCHEMA}, "flags_without_done")
    with imported(files, "flags_without_done", tmp_path) as package:
        found = []
        for env in (
            package.Counted(batch_size=(3,)),
            TransformedEnv(Pendulum(batch_size=(3,)), StepCounter(max_steps=3, update_done=False)),
        ):
            env.set_seed(1)
            torch.manual_seed(1)
            root, steps = env.reset(), []
            for _ in range(5):
                root["_step"] = torch.tensor([True, True, False])
                step = env.step(env.rand_action(root))
                steps.append(step["next"].clone())
                root = env.step_mdp(step)
            found.append(torch.stack(steps))
    assert found[0]["truncated"][-1].flatten().tolist() == [True, True, False]
    assert not found[0]["done"].any()
    assert_identical(
        found[0].select("truncated", "done", "observation"),
        found[1].select("truncated", "done", "observation"),
    )
