"""Small networks and losses that the tests of this folder share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from specgen_runtime.objectives import LossModule, ValueEstimators
from specgen_runtime.typing import NestedKey
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictModuleBase,
)
from torch import Tensor, nn

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


def policy(dtype: torch.dtype = torch.float32) -> ProbabilisticTensorDictSequential:
    """A categorical policy that is all but certain of what `steps` holds: TorchRL scores the likeliest action."""
    torch.manual_seed(3)
    module = TensorDictModule(nn.Linear(N_OBS, 3, dtype=dtype), in_keys=["observation"], out_keys=["logits"])
    return ProbabilisticTensorDictSequential(
        module,
        ProbabilisticTensorDictModule(
            in_keys=["logits"],
            out_keys=["action"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        ),
    )


def steps(
    *batch: int, dtype: torch.dtype = torch.float32, contiguous: bool = False, time: int | None = -1
) -> TensorDict:
    """Steps of several trajectories in a row; the action is the likeliest one of `policy`."""
    generator = torch.Generator().manual_seed(len(batch))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    observation, after = normal(*batch, N_OBS), normal(*batch, N_OBS)
    terminated = torch.rand(*batch, 1, generator=generator) < 0.1
    truncated = torch.rand(*batch, 1, generator=generator) < 0.1
    if contiguous:
        after[..., :-1, :] = torch.where(truncated[..., :-1, :], after[..., :-1, :], observation[..., 1:, :])
    names = [None] * len(batch)
    if time is not None:
        names[time] = "time"  # type: ignore[call-overload]
    return TensorDict(
        {
            "observation": observation,
            "action": policy(dtype)[0](TensorDict({"observation": observation}))["logits"].argmax(-1),
            "action_log_prob": -1 + 0.3 * normal(*batch),
            "task": torch.randint(3, batch, generator=generator),
            "next": {
                "observation": after,
                "reward": normal(*batch, 1),
                "done": terminated | truncated,
                "terminated": terminated,
                "truncated": truncated & ~terminated,
            },
        },
        batch,
        names=names,
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
        return TensorDict({"loss_value": self._samples(tensordict).reduced(error)})
