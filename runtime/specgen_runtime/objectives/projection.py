"""Categorical distributions on a support, for losses of distributional values."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def project(masses: Tensor, places: Tensor, support: Tensor) -> Tensor:
    """Masses at some places as masses at the atoms of a support (Bellemare et al. 2017, eq. 7).

    Each is split between its two neighbours in proportion to how near it is; what lies beyond an end is put there.

    Args:
        masses: shape ``[*batch, atoms]``.
        places: where they are, of the same shape.
        support: the atoms, rising and evenly spaced, shape ``[atoms]``.

    Returns:
        The shape of ``masses``; with gradients to ``masses`` and ``places``.
    """
    last = support.shape[0] - 1
    if last < 1:
        return masses.clone()
    low, high = support[0], support[-1]
    place = (torch.clamp(places, low, high) - low) * (last / (high - low))
    below = place.detach().floor().clamp(0, last - 1)
    upper = place - below
    index, to_lower, to_upper = below.long(), masses * (1 - upper), masses * upper
    return torch.zeros_like(to_lower).scatter_add(-1, index, to_lower).scatter_add(-1, index + 1, to_upper)


def network_buffer(loss: nn.Module, network: str, name: str) -> Tensor:
    """The buffer ``name`` of the module that a loss was given for a network.

    Raises:
        RuntimeError: if it has none.
    """
    params = getattr(loss, f"{network}_params")
    held = params if params is not None else getattr(loss, network)
    value = held.get(name, None) if params is not None else getattr(held, name, None)
    if not isinstance(value, Tensor):
        raise RuntimeError(
            f"{type(loss).__name__}: {network} has no buffer {name!r}, which this loss reads; a module with one is made by "
            f"register_buffer({name!r}, ...)"
        )
    return value


def check_support(loss: nn.Module, network: str, name: str) -> None:
    """Refuse a support whose atoms, shape ``[atoms]``, do not rise evenly: `project` counts by their distance.

    Args:
        loss: the loss, with its networks.
        network: the network whose buffer it is.
        name: the buffer.

    Raises:
        RuntimeError: if the module has no such buffer.
        ValueError: if it is no vector, or its atoms do not rise evenly, but for rounding.
    """
    support = network_buffer(loss, network, name)
    who = f"{type(loss).__name__}: the buffer {name!r} of {network}"
    if support.ndim != 1 or not support.is_floating_point():
        shape, dtype = tuple(support.shape), support.dtype
        raise ValueError(f"{who} is a vector of floating-point atoms, got shape {shape} and dtype {dtype}")
    if support.shape[0] < 2:
        return
    steps = support.diff()
    rounding = 4 * max(torch.finfo(support.dtype).eps, 1e-6) * support.abs().max()
    if not bool((steps > 0).all() & ((steps - steps.mean()).abs() <= rounding).all()):
        raise ValueError(f"{who} must rise evenly from atom to atom, got {support.tolist()}")
