"""Losses beside TorchRL's: equal networks, equal targets, equal outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from specgen_runtime.modules.distributions import TanhNormal
from specgen_runtime.objectives import LossModule
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import Tensor, nn

N_OBS, N_ACT = 4, 2


class ActionValue(nn.Module):
    """The value of an action in a state."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(N_OBS + N_ACT, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, 1, dtype=dtype)
        )

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([observation, action], -1))


def policy(dtype: torch.dtype = torch.float32, seed: int = 0) -> ProbabilisticTensorDictSequential:
    """A policy over actions in (-1, 1)."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(N_OBS, 2 * N_ACT, dtype=dtype), NormalParamExtractor())
    return ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["action"], distribution_class=TanhNormal, return_log_prob=True
        ),
    )


def action_value(dtype: torch.dtype = torch.float32, seed: int = 1) -> TensorDictModule:
    """The value of an action, `state_action_value`."""
    torch.manual_seed(seed)
    return TensorDictModule(
        ActionValue(dtype), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def state_value(dtype: torch.dtype = torch.float32, seed: int = 2) -> TensorDictModule:
    """The value of a state, `state_value`."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(N_OBS, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, 1, dtype=dtype))
    return TensorDictModule(net, in_keys=["observation"], out_keys=["state_value"])


def batch(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> TensorDict:
    """Steps with actions in (-1, 1), of which some are terminated and some truncated."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> Tensor:
        return torch.randn(*shape, *size, generator=generator, dtype=torch.float64).to(dtype)

    terminated = torch.rand(*shape, 1, generator=generator) < 0.4
    return TensorDict(
        {
            "observation": normal(N_OBS),
            "action": 0.9 * normal(N_ACT).tanh(),
            "priority_weight": normal().exp(),
            "next": {
                "observation": normal(N_OBS),
                "reward": 3 * normal(1),
                "done": terminated | (torch.rand(*shape, 1, generator=generator) < 0.3),
                "terminated": terminated,
            },
        },
        shape,
    )


def with_equal_parameters(mine: LossModule, theirs: Any) -> None:
    """Give both losses parameters that differ from what they were made with, targets different ones."""
    generator = torch.Generator().manual_seed(7)
    for name in dict.fromkeys(key.split(".")[0] for key in dict(mine.named_parameters()) if "." in key):
        own, other = getattr(mine, name), getattr(theirs, name)
        for key, value in own.items(True, True):
            drawn = 0.5 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.data.copy_(drawn)
            other.get(key).data.copy_(drawn)
    for network in mine.target_networks():
        own, other = (getattr(loss, f"target_{network}_params") for loss in (mine, theirs))
        for key, value in own.items(True, True):
            drawn = 0.5 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.data.copy_(drawn)
            other.data.get(key).copy_(drawn)


def gradients(loss: Any, total: Tensor) -> dict[str, Tensor]:
    """The gradients of one term that are not zero, by the names of the parameters."""
    loss.zero_grad()
    total.backward()
    return {
        name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None and p.grad.any()
    }


def assert_equal(
    mine: LossModule,
    theirs: Any,
    data: Callable[[], TensorDict],
    *,
    outputs: Iterable[str],
    terms: Iterable[str],
    tolerance: float,
) -> None:
    """Outputs, the priority, and the gradient of every term to every parameter; draws start from one seed."""

    def close(got: Tensor, wanted: Tensor, what: str) -> None:
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}")

    results, batches = [], []
    for loss in (mine, theirs):
        batches.append(data())
        torch.manual_seed(11)
        results.append(loss(batches[-1]))
    for name in outputs:
        if name == "loss_alpha" and getattr(mine, "fixed_alpha", False):
            assert not results[0][name].any(), "nothing is trained by it (docs/differences.md)"
            continue
        close(results[0][name], results[1][name], name)
    close(batches[0]["td_error"].flatten(), batches[1]["td_error"].flatten(), "td_error")
    for term in terms:
        found = []
        for loss in (mine, theirs):
            torch.manual_seed(11)
            found.append(gradients(loss, loss(data())[term].sum()))
        for name in dict.fromkeys([*found[0], *found[1]]):
            # what cancels is zero in one and the last digits of a sum in the other
            got, wanted = (each.get(name, torch.tensor(0.0, dtype=torch.float64)) for each in found)
            shape, kind = (
                torch.broadcast_shapes(got.shape, wanted.shape),
                min(got.dtype, wanted.dtype, key=str),
            )
            close(got.to(kind).expand(shape), wanted.to(kind).expand(shape), f"{term}: {name}")
