"""Losses, forward and backward, against TorchRL's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torchrl.data
import torchrl.modules
import torchrl.objectives
from specgen_runtime.modules import QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.specs import Categorical
from specgen_std.losses.dqn import DQNLoss
from tensordict import TensorDict
from torch import nn

from benchmarks.harness import Budget, Row, Work, paired

BATCH = 256


def rows(budget: Budget) -> Iterator[Row]:
    """A step of DQN, single and double, without the optimizer."""
    data = _data()
    for double in (False, True):
        torch.manual_seed(0)
        ours = DQNLoss(QValueActor(_network(), spec=Categorical(2)), delay_value=True, double_dqn=double)
        torch.manual_seed(0)
        theirs = torchrl.objectives.DQNLoss(
            torchrl.modules.QValueActor(_network(), spec=torchrl.data.Categorical(2)),
            delay_value=True,
            double_dqn=double,
        )
        # Each gets its target update, or it warns that its targets never change.
        for loss, updater in ((ours, SoftUpdate), (theirs, torchrl.objectives.SoftUpdate)):
            loss.make_value_estimator(gamma=0.99)
            updater(loss, tau=0.01).step()
        name = "double DQN" if double else "DQN"
        yield paired(
            f"{name}, forward + backward, batch {BATCH}",
            Work(_Step(ours, data)),
            Work(_Step(theirs, data)),
            budget,
        )


class _Step:
    def __init__(self, loss: Any, data: TensorDict) -> None:
        self.loss = loss
        self.data = data
        self.parameters = list(loss.parameters())

    def __call__(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        self.loss(self.data)["loss"].backward()


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def _data() -> TensorDict:
    generator = torch.Generator().manual_seed(0)
    terminated = torch.rand(BATCH, 1, generator=generator) < 0.1
    return TensorDict(
        {
            "observation": torch.randn(BATCH, 4, generator=generator),
            "action": torch.randint(2, (BATCH,), generator=generator),
            "next": {
                "observation": torch.randn(BATCH, 4, generator=generator),
                "reward": torch.ones(BATCH, 1),
                "done": terminated,
                "terminated": terminated,
            },
        },
        batch_size=[BATCH],
    )
