"""Policies that tests collect with, and environments to collect from."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import SerialEnv
from specgen_std.envs.cartpole import CartPole, CartPoleGym
from specgen_std.envs.pendulum import Pendulum
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn


def pusher(seed: int = 0) -> Any:
    """A policy of CartPole that draws the direction by its logits, from torch's generator."""
    torch.manual_seed(seed)

    def drawn(logits: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Categorical(logits=logits).sample()

    return TensorDictSequential(
        TensorDictModule(nn.Linear(4, 2), ["observation"], ["logits"]),
        TensorDictModule(drawn, ["logits"], ["action"]),
    )


def torque(seed: int = 0) -> Any:
    """A policy of Pendulum."""
    torch.manual_seed(seed)
    return TensorDictModule(nn.Sequential(nn.Linear(3, 1), nn.Tanh()), ["observation"], ["action"])


ENVS: dict[str, Any] = {
    "one": CartPole,
    "batch": lambda: CartPole(batch_size=[3]),
    "two dimensions": lambda: CartPole(batch_size=[2, 2]),
    "gymnasium": CartPoleGym,
    "serial": lambda: SerialEnv(2, CartPole),
    "serial gymnasium": lambda: SerialEnv(2, CartPoleGym),
    "pendulum": lambda: Pendulum(batch_size=[2]),
}


def policy_for(name: str, kind: str) -> Any:
    """A policy for one of the environments, of some kind."""
    if kind == "random":
        return None
    module = torque() if name == "pendulum" else pusher()
    if kind == "module":
        return module

    def function(tensordict: Any) -> Any:
        return module(tensordict)

    return function
