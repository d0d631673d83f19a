"""Categorical distributions on a support, for losses of distributional values."""

from __future__ import annotations

import torch
from torch import Tensor


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
