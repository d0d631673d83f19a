"""Reduces one loss value per sample to their mean or sum, weighted and masked; leaves scalars out beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import torch
from tensordict import TensorDictBase
from torch import Tensor

Reduction: TypeAlias = Literal["mean", "sum", "none"]
ScalarOutputMode: TypeAlias = Literal["exclude", "non_tensor"]


def checked_reduction(value: object) -> Reduction:
    """``value`` if it is a reduction; ``None`` means ``"mean"``.

    Raises:
        ValueError: if it is anything else.
    """
    if value is None:
        return "mean"
    for reduction in get_args(Reduction):
        if value == reduction:
            return reduction  # type: ignore[no-any-return]
    raise ValueError(f"reduction must be one of 'mean', 'sum' or 'none', got {value!r}")


def checked_scalar_output_mode(value: object) -> ScalarOutputMode | None:
    """``value`` if it says what becomes of scalars beside terms that are not reduced, or is None.

    Raises:
        ValueError: if it is anything else.
    """
    if value is None:
        return None
    for mode in get_args(ScalarOutputMode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"scalar_output_mode must be 'exclude', 'non_tensor' or None, got {value!r}")


def without_scalars(outputs: TensorDictBase, mode: ScalarOutputMode) -> TensorDictBase:
    """The outputs without those that are one number for the batch; ``"non_tensor"`` keeps them as no tensors."""
    scalars = {key: value for key, value in outputs.items() if value.ndim == 0}
    kept = outputs.exclude(*scalars)
    if mode == "non_tensor":
        for key, value in scalars.items():
            kept.set_non_tensor(key, value)
    return kept


def reduce(
    loss: Tensor,
    reduction: Reduction,
    *,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    first: Sequence[int] = (),
) -> Tensor:
    """Reduce a loss of one value per sample.

    Args:
        loss: any shape, one value per sample.
        reduction: ``"mean"`` divides by what was summed: by the weights if there are any, else by the number of
            valid samples. ``"none"`` keeps the shape, with zeros where the mask is false.
        mask: bool, True where a sample counts; broadcast to ``loss``, a trailing 1 is dropped.
        weights: importance weights, broadcast like ``mask``.
        first: dimensions of ``loss`` over which means are taken before that, of what counts along them; where nothing
            does, such a mean does not count either. Its weight is the mean of the weights. Not for ``"none"``.

    Raises:
        ValueError: if ``mask`` or ``weights`` has more dimensions than ``loss``.
    """
    if weights is not None:
        weights = _like(weights, loss, "priority weights")
    if mask is not None:
        mask = _like(mask, loss, "mask")
    if first and reduction != "none":
        loss, mask, weights = _means(loss, list(first), mask, weights)
    if mask is not None:
        # Select, don't multiply: what is masked may be NaN, and NaN * 0 is NaN.
        loss = torch.where(mask, loss, torch.zeros_like(loss))
        if weights is not None:
            weights = torch.where(mask, weights, torch.zeros_like(weights))
    if weights is not None:
        loss = loss * weights
    if reduction == "none":
        return loss
    if reduction == "sum" or (weights is None and mask is None):
        return loss.sum() if reduction == "sum" else loss.mean()
    if weights is not None:
        return loss.sum() / weights.sum()
    assert mask is not None
    return loss.sum() / mask.sum().clamp_min(1)


def _means(
    loss: Tensor, dims: list[int], mask: Tensor | None, weights: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The means over some dimensions, which of them count, and their weights."""
    if mask is None and weights is None:
        return loss.mean(dims), None, None
    shares = torch.ones_like(loss) if weights is None else weights
    counts = torch.ones_like(shares) if mask is None else mask.to(shares.dtype)
    if mask is not None:
        loss, shares = (torch.where(mask, each, torch.zeros_like(each)) for each in (loss, shares))
    total, number = shares.sum(dims), counts.sum(dims)
    means = (loss * shares).sum(dims) / torch.where(total == 0, torch.ones_like(total), total)
    behind = None if weights is None else total / number.clamp_min(1)
    return means, None if mask is None else number > 0, behind


def _like(value: Tensor, loss: Tensor, name: str) -> Tensor:
    """``value`` expanded to the shape of ``loss``: leading dimensions are the batch of both."""
    while value.ndim > loss.ndim and value.shape[-1] == 1:
        value = value.squeeze(-1)
    if value.ndim > loss.ndim:
        raise ValueError(
            f"{name} of shape {tuple(value.shape)} do not fit a loss of shape {tuple(loss.shape)}: "
            "there may be one value per sample"
        )
    return value.reshape(value.shape + (1,) * (loss.ndim - value.ndim)).expand_as(loss)
