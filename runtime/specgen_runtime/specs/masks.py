"""Masks over classes: reading them, drawing among the allowed classes, finding the nearest one."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specgen_runtime.typing import ArrayLike

__all__ = ["draw_allowed", "nearest_allowed", "read_mask"]


def read_mask(mask: ArrayLike, shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Read a mask and broadcast it to `shape`, whose last dimension counts the classes.

    Raises:
        ValueError: if it does not hold bools.
        RuntimeError: if it does not broadcast.
    """
    allowed = torch.as_tensor(mask, device=device)
    if allowed.dtype != torch.bool:
        raise ValueError(f"a mask must hold bools (True for allowed), got {allowed.dtype}")
    try:
        return allowed.clone().expand(tuple(shape))
    except RuntimeError:
        raise RuntimeError(
            f"the mask's shape must broadcast to {tuple(shape)}, got {tuple(allowed.shape)}"
        ) from None


def draw_allowed(mask: torch.Tensor, size: torch.Size) -> torch.Tensor:
    """Draw one allowed class per row, uniformly.

    Args:
        mask: bool, `(*batch, n)`.
        size: `(*lead, *batch)`, the shape of the result.

    Returns:
        int64 classes of shape `size`.

    Raises:
        RuntimeError: if a row allows no class.
    """
    if not bool(mask.any(-1).all()):
        raise RuntimeError("cannot draw: a row of the mask allows no class")
    classes = mask.shape[-1]
    weights = mask.expand(*size, classes).reshape(-1, classes).float()
    return torch.multinomial(weights, 1).reshape(size)


def nearest_allowed(classes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Replace classes that are not allowed by the nearest one that is (the lower of two).

    Args:
        classes: int64, `(*lead, *batch)`, within `0 … n - 1`.
        mask: bool, `(*batch, n)`.

    Raises:
        ValueError: if a row allows no class.
    """
    if not bool(mask.any(-1).all()):
        raise ValueError("cannot project: a row of the mask allows no class")
    n = mask.shape[-1]
    distance = (torch.arange(n, device=classes.device) - classes.unsqueeze(-1)).abs()
    return distance.masked_fill(~mask, n).argmin(-1)
