"""Layers of one's own in networks of pipelines: what a class has to be, and what is checked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

__all__ = ["MakesLayers", "own_layers"]


class MakesLayers(Protocol):
    """What `python: package.module:Class` of a network names: a class of modules, or a function that makes one.

    The module is called with a float32 tensor for each entry that the network reads, `[*batch, *shape]`, and gives float32
    `[*batch, out_features]`; `*batch` are any leading dimensions, at least one.
    """

    def __call__(self, *, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
        """Make the layers, with new weights.

        Args:
            in_shapes: the shape of each entry without the batch.
            out_features: how many numbers the layers give.
        """
        ...


def own_layers(make: MakesLayers, *, in_shapes: Sequence[tuple[int, ...]], out_features: int) -> nn.Module:
    """The layers that a class or function makes, called once with zeros to see what they give.

    Args:
        make: makes them.
        in_shapes: the shape of each entry that they read, without the batch.
        out_features: how many numbers they give.

    Raises:
        TypeError: what is made is no module, or gives no tensor.
        ValueError: it gives another shape or dtype.
    """
    layers = make(in_shapes=in_shapes, out_features=out_features)
    name = getattr(make, "__qualname__", type(make).__name__)
    if not isinstance(layers, nn.Module):
        raise TypeError(f"{name} makes a {type(layers).__name__}, and layers are an nn.Module")
    modes = [(module, module.training) for module in layers.modules()]
    layers.eval()
    with torch.no_grad():
        given = layers(*(torch.zeros(2, *shape) for shape in in_shapes))
    for module, training in modes:
        module.training = training
    if not isinstance(given, Tensor):
        raise TypeError(f"layers of {name} give a {type(given).__name__}, expected a tensor")
    if given.shape != (2, out_features) or given.dtype != torch.float32:
        raise ValueError(
            f"layers of {name} give {given.dtype} of shape {list(given.shape)} for a batch of 2, expected torch.float32 of"
            f" shape {[2, out_features]}"
        )
    return layers
