"""Losses that are called with tensors by keyword, of which some are missing."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from specgen_runtime.modules import ProbabilisticActor, QValueActor, ValueOperator
from specgen_std.losses.dqn import DQNLoss
from specgen_std.losses.ppo import ClipPPOLoss
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Categorical

NEXT = {
    "next_observation": torch.randn(5, 3),
    "next_reward": torch.randn(5, 1),
    "next_terminated": torch.zeros(5, 1, dtype=torch.bool),
    "next_done": torch.zeros(5, 1, dtype=torch.bool),
}
DONE = {"observation": torch.randn(5, 3), "action": torch.randint(2, (5,))}
ADVANTAGES = {
    "action_log_prob": torch.randn(5),
    "advantage": torch.randn(5, 1),
    "value_target": torch.randn(5, 1),
}


def ppo() -> ClipPPOLoss:
    logits = TensorDictModule(nn.Linear(3, 2), in_keys=["observation"], out_keys=["logits"])
    policy = ProbabilisticActor(logits, in_keys=["logits"], distribution_class=Categorical)
    return ClipPPOLoss(policy, ValueOperator(nn.Linear(3, 1), in_keys=["observation"]))


def dqn() -> DQNLoss:
    value_network = QValueActor(nn.Linear(3, 2), in_keys=["observation"], action_space="categorical")
    return DQNLoss(value_network, delay_value=False)


@pytest.mark.parametrize(
    ("loss", "inputs"),
    [(ppo(), DONE | ADVANTAGES), (ppo(), DONE | ADVANTAGES | NEXT), (dqn(), DONE | NEXT)],
    ids=["advantages", "advantages that may be estimated", "values of actions"],
)
def test_what_is_missing_is_a_key(loss: Any, inputs: dict[str, Tensor]) -> None:
    loss(**inputs)
    refused: list[str] = []
    for count in range(1, len(inputs) + 1):
        for missing in combinations(inputs, count):
            try:
                loss(**{name: value for name, value in inputs.items() if name not in missing})
            except KeyError as error:
                refused.append(str(error))
    assert len(refused) > 2 ** (len(inputs) - 1)
    assert all("is not in the tensordict" in one or "inputs are None" in one for one in refused)


@pytest.mark.parametrize("missing", ["advantage", "value_target"])
def test_what_nothing_can_be_estimated_from_is_told(missing: str) -> None:
    inputs = {name: value for name, value in (DONE | ADVANTAGES).items() if name != missing}
    with pytest.raises(
        KeyError, match=f"'{missing}' is not in the tensordict, nor 'next', of which GAE would"
    ):
        ppo()(**inputs)
