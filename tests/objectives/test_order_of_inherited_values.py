"""Values of a loss that extends another one: what they read comes before them, where the parent has it behind."""

from __future__ import annotations

from pathlib import Path

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.support import compile_texts, generate, imported

SCHEMA = """\
specgen: 1
losses:
  BaseLoss:
    networks: {critic: {in: [observation], out: {value: "float32[1]"}}}
    keys: {goal: {key: goal, type: "float32[1]"}}
    let:
      error: critic(now) - goal
      v: critic(now)
      doubled: 2 * v
    terms: {loss: error**2 + 0.0 * doubled}
  HalvedLoss:
    extends: BaseLoss
    let: {error: OWN}
"""


def test_a_value_reads_one_that_the_parent_has_behind_it(tmp_path: Path) -> None:
    text = SCHEMA.replace("OWN", "0.25 * doubled - goal")
    with imported(generate({"halved.yaml": text}, "with_halved"), "with_halved", tmp_path):
        import with_halved.halved as made  # type: ignore[import-not-found]

        critic = TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["value"])
        data = TensorDict({"observation": torch.randn(4, 3), "goal": torch.randn(4, 1)}, [4])
        value = critic(data.clone())["value"]
        expected = ((0.5 * value - data["goal"]) ** 2).mean()
        torch.testing.assert_close(made.HalvedLoss(critic)(data)["loss"], expected)


def test_values_that_need_each_other_are_refused() -> None:
    text = SCHEMA.replace("OWN", "0.25 * doubled").replace("v: critic(now)", "v: critic(now) + 0.0 * error")
    assert compile_texts({"halved.yaml": text}, "with_circle")[2] == {"SG803"}
