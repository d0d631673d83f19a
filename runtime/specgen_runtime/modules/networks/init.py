"""First weights of networks."""

from __future__ import annotations

import math
from typing import TypeVar

from torch import nn

__all__ = ["orthogonal"]

M = TypeVar("M", bound=nn.Module)


def orthogonal(network: M, *, gain: float = math.sqrt(2.0), head_gain: float = 1.0) -> M:
    """Give the linear layers of a network orthogonal weights, and biases of 0 (Saxe et al. 2014).

    Draws from torch's global generator, as layers do when they are made.

    Args:
        network: its `nn.Linear` layers are those in `modules()`, of which the last is the head; they change in place.
        gain: the factor of the weights of hidden layers.
        head_gain: that of the head; a small one makes a policy nearly independent of what it reads at first.

    Returns:
        The network.

    Raises:
        ValueError: a gain is not positive, or there is no linear layer.
    """
    for name, value in (("gain", gain), ("head_gain", head_gain)):
        if not value > 0:
            raise ValueError(f"orthogonal: {name} must be positive, got {value}")
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError(f"orthogonal: {type(network).__name__} has no linear layer")
    for layer in layers:
        nn.init.orthogonal_(layer.weight, head_gain if layer is layers[-1] else gain)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network
