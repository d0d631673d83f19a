"""Small networks and losses that the tests of this folder share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from specgen_runtime.objectives import LossModule, ValueEstimators
from specgen_runtime.typing import NestedKey
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictModuleBase
from torch import nn

N_OBS, N_ACT = 4, 3


def mlp(seed: int = 0, *, dropout: bool = False, batch_norm: bool = False) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = [nn.Linear(N_OBS, 8)]
    if batch_norm:
        layers.append(nn.BatchNorm1d(8))
    if dropout:
        layers.append(nn.Dropout(0.5))
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(8, 1))


def critic(seed: int = 0, **kwargs: bool) -> TensorDictModule:
    return TensorDictModule(mlp(seed, **kwargs), in_keys=["observation"], out_keys=["state_value"])


def batch(*shape: int, seed: int = 1) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    return TensorDict(
        {
            "observation": torch.randn(*shape, N_OBS, generator=generator),
            "next": {
                "observation": torch.randn(*shape, N_OBS, generator=generator),
                "reward": torch.randn(*shape, 1, generator=generator),
                "done": torch.rand(*shape, 1, generator=generator) < 0.5,
                "terminated": torch.rand(*shape, 1, generator=generator) < 0.3,
            },
        },
        shape,
    )


class ValueLoss(LossModule):
    """A hand-written loss: squared TD(0) error of a state value."""

    @dataclass
    class _AcceptedKeys:
        value: NestedKey = "state_value"
        reward: NestedKey = "reward"
        terminated: NestedKey = "terminated"
        done: NestedKey = "done"
        priority_weight: NestedKey = "priority_weight"

    default_value_estimator = ValueEstimators.TD0
    supported_value_estimators = (ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda)
    out_keys = ["loss_value"]  # noqa: RUF012

    def __init__(self, network: TensorDictModuleBase, *, delay_value: bool = True) -> None:
        super().__init__()
        self.convert_to_functional(network, "critic", create_target_params=delay_value)

    @property
    def in_keys(self) -> list[NestedKey]:
        return [*super().in_keys, ("next", "reward"), ("next", "terminated"), ("next", "done")]

    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        network = self.functional_network("critic")
        key = self.tensor_keys.value
        next_value = network.target(self._next(tensordict), key)
        target = self.value_estimator.value_estimate(tensordict, next_value=next_value)
        error = (network.live(tensordict, key) - target.detach()).pow(2).squeeze(-1)
        return TensorDict({"loss_value": self._reduce_loss(error, tensordict)})
