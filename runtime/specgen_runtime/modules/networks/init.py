"""First weights of networks."""

from __future__ import annotations

import math
from typing import TypeVar

from torch import nn

__all__ = ["orthogonal"]

M = TypeVar("M", bound=nn.Module)

_DIMENSIONS_OF = ((nn.Linear, 2), (nn.Conv1d, 3), (nn.Conv2d, 4), (nn.Conv3d, 5))
"""Layers, each with how many dimensions its weights have."""
_DIMENSIONS = tuple(kind for kind, _ in _DIMENSIONS_OF)


def orthogonal(network: M, *, gain: float = math.sqrt(2.0), head_gain: float = 1.0) -> M:
    """Give the linear layers and convolutions of a network orthogonal weights, and biases of 0 (Saxe et al. 2014).

    Draws from torch's global generator, as layers do when they are made.

    Args:
        network: its layers are those in `modules()`, of which the last is the head; they change in place. Where weights
            are stacked, as those of agents with networks of their own, each is orthogonal by itself.
        gain: the factor of the weights of hidden layers.
        head_gain: that of the head; a small one makes a policy nearly independent of what it reads at first.

    Returns:
        The network.

    Raises:
        ValueError: a gain is not positive, or there is no such layer.
    """
    for name, value in (("gain", gain), ("head_gain", head_gain)):
        if not value > 0:
            raise ValueError(f"orthogonal: {name} must be positive, got {value}")
    layers = [module for module in network.modules() if isinstance(module, _DIMENSIONS)]
    if not layers:
        raise ValueError(f"orthogonal: {type(network).__name__} has no linear layer and no convolution")
    for layer in layers:
        own = next(dims for kind, dims in _DIMENSIONS_OF if isinstance(layer, kind))
        factor = head_gain if layer is layers[-1] else gain
        weight = layer.weight.detach()
        for one in weight.flatten(0, -own - 1) if weight.ndim > own else [weight]:
            nn.init.orthogonal_(one, factor)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network
