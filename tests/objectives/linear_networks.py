"""Linear networks of losses, so that tests can write down the formulas of papers, and what they are compared by."""

from __future__ import annotations

import math
from typing import Any

import torch
from specgen_runtime.modules import ProbabilisticActor
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

N, N_OBS, N_ACT, GAMMA = 7, 3, 2, 0.9


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, dtype=torch.float64)
    layer.weight.data, layer.bias.data = normal(outputs, inputs, seed=seed), normal(outputs, seed=seed + 1)
    return layer


def at(params: Any, x: Tensor) -> Tensor:
    """What a linear network gives with these parameters of a loss."""
    (weight,), (bias,) = (
        [
            value
            for key, value in params.items(True, True)
            if name in (key if isinstance(key, tuple) else [key])
        ]
        for name in ("weight", "bias")
    )
    return x @ weight.mT + bias


def moved(params: Any) -> Any:
    """Targets that are no copies any more."""
    for place, value in enumerate(params.values(True, True)):
        value.data += 0.3 * normal(*value.shape, seed=50 + place)
    return params


class Joined(nn.Module):
    def __init__(self, outputs: int, seed: int) -> None:
        super().__init__()
        self.layer = linear(N_OBS + N_ACT, outputs, seed)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.layer(torch.cat([observation, action], -1))


class Gauss(nn.Module):
    """A mean that is linear in the observation, and a deviation that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear(N_OBS, N_ACT, 10)
        self.log_scale = nn.Parameter(torch.tensor([-0.3, 0.2], dtype=torch.float64))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.layer(observation)
        return mean, self.log_scale.exp().expand_as(mean)


class Independent(torch.distributions.Independent):
    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(torch.distributions.Normal(loc, scale), 1)


def gauss() -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(Gauss(), in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=Independent,
        return_log_prob=True,
    )


def certain() -> TensorDictModule:
    return TensorDictModule(linear(N_OBS, N_ACT, 10), in_keys=["observation"], out_keys=["action"])


def action_value(seed: int = 20) -> TensorDictModule:
    return TensorDictModule(
        Joined(1, seed), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def state_value() -> TensorDictModule:
    return TensorDictModule(linear(N_OBS, 1, 30), in_keys=["observation"], out_keys=["state_value"])


def steps(*shape: int) -> TensorDict:
    ended = normal(*shape, 1, seed=5) > 0.4
    return TensorDict(
        {
            "observation": normal(*shape, N_OBS, seed=1),
            "action": normal(*shape, N_ACT, seed=2),
            "action_log_prob": -2 + 0.4 * normal(*shape, seed=6),
            "advantage": normal(*shape, 1, seed=7),
            "value_target": normal(*shape, 1, seed=8),
            "next": {
                "observation": normal(*shape, N_OBS, seed=3),
                "reward": normal(*shape, 1, seed=4),
                "done": ended | (normal(*shape, 1, seed=9) > 0.8),
                "terminated": ended,
            },
        },
        shape,
    )


def facts(data: TensorDict) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Observations, actions, rewards, whether the episode goes on, and next observations, as plain tensors."""
    after = data["next"]
    alive = (~after["terminated"]).squeeze(-1).double()
    return data["observation"], data["action"], after["reward"].squeeze(-1), alive, after["observation"]


def log_density(x: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
    """Of a normal distribution with independent entries."""
    return (-0.5 * ((x - mean) / log_scale.exp()) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)


def gauss_entropy(log_scale: Tensor) -> Tensor:
    return (log_scale + 0.5 * math.log(2 * math.pi * math.e)).sum()


def check(loss: Any, found: TensorDict, /, **expected: Tensor) -> None:
    """Each term, and its gradients to what it trains. Coefficients are float32, networks and data float64."""
    parameters = [p for p in loss.parameters() if p.requires_grad]
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6, msg=name)
        if not name.startswith("loss"):
            continue
        trained = [
            p
            for term in loss.parameters_of(name)
            for p in ([term] if isinstance(term, Tensor) else term.parameters())
        ]
        assert trained
        got, wanted = (
            torch.autograd.grad(one, parameters, retain_graph=True, allow_unused=True)
            for one in (found[name], value)
        )
        for parameter, a, b in zip(parameters, got, wanted, strict=True):
            if any(parameter is one for one in trained):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, msg=name)
