"""Masks over classes: reading them, drawing among the allowed classes, finding the nearest and the greatest."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specgen_runtime.typing import ArrayLike

__all__ = ["draw_allowed", "greatest_allowed", "nearest_allowed", "read_mask"]

_LEAST = torch.finfo(torch.float64).min


def read_mask(mask: ArrayLike, shape: Sequence[int], device: torch.device) -> torch.Tensor:
    """Read a mask and broadcast it to `shape`, whose last dimension counts the classes.

    A mask with one number per class may have further singleton dimensions.

    Raises:
        ValueError: if it holds anything but bools, or zeros and ones of an integer dtype.
        RuntimeError: if it does not broadcast.
    """
    allowed = torch.as_tensor(mask, device=device)
    if allowed.dtype != torch.bool:
        if allowed.is_floating_point() or allowed.is_complex():
            raise ValueError(f"a mask must hold bools (True for allowed), got {allowed.dtype}")
        if bool(((allowed != 0) & (allowed != 1)).any()):
            raise ValueError(
                f"a mask must hold bools (True for allowed), got other numbers: {allowed.tolist()}"
            )
    wanted = tuple(shape)
    if allowed.shape != wanted and allowed.numel() == wanted[-1] == max(allowed.shape, default=1):
        allowed = allowed.reshape(-1)
    try:
        # A copy: what the caller does to its own mask later is not meant for the spec.
        return allowed.clone().bool().expand(wanted)
    except RuntimeError:
        raise RuntimeError(
            f"the mask's shape must broadcast to {wanted}, got {tuple(allowed.shape)}"
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
    # Elsewhere torch checks the weights as it draws; an accelerator would only stop, later and for good.
    if mask.device.type not in ("cpu", "meta") and not bool(mask.any(-1).all()):
        raise RuntimeError("cannot draw: a row of the mask allows no class")
    classes = mask.shape[-1]
    weights = (mask if mask.shape[:-1] == size else mask.expand(*size, classes)).reshape(-1, classes).float()
    try:
        return torch.multinomial(weights, 1).view(size)
    except RuntimeError:
        if bool(mask.any(-1).all()):
            raise
        raise RuntimeError("cannot draw: a row of the mask allows no class") from None


def nearest_allowed(classes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Replace classes that are not allowed by the nearest one that is (the lower of two).

    Args:
        classes: int64, `(*lead, *batch)`, within `0 … n - 1`.
        mask: bool, `(*batch, n)`.

    Raises:
        ValueError: if a row allows no class.
    """
    _check_allows_each(mask)
    n = mask.shape[-1]
    distance = (torch.arange(n, device=classes.device) - classes.unsqueeze(-1)).abs()
    return distance.masked_fill(~mask, n).argmin(-1)


def greatest_allowed(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The allowed class with the greatest score, the first of several; NaN counts as the smallest.

    Args:
        scores: any real dtype, `(*lead, *batch, n)`.
        mask: bool, `(*batch, n)`; None allows all.

    Returns:
        int64 classes of shape `(*lead, *batch)`.

    Raises:
        ValueError: if a row allows no class.
    """
    # An allowed -inf or NaN must still win over whatever is masked.
    numbers = scores.double().nan_to_num(_LEAST, torch.inf, _LEAST)
    if mask is not None:
        _check_allows_each(mask)
        numbers = numbers.masked_fill(~mask, -torch.inf)
    return numbers.argmax(-1)


def _check_allows_each(mask: torch.Tensor) -> None:
    if not mask.is_meta and not bool(mask.any(-1).all()):
        raise ValueError("cannot project: a row of the mask allows no class")
