"""Distances between a prediction and its target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

LossFunction: TypeAlias = Literal["l1", "l2", "smooth_l1"]

_ELEMENTWISE: Any = torch._C._nn
"""What `torch.nn.functional` calls after it has broadcast its arguments, which takes as long; 0 is no reduction."""


def distance_loss(
    prediction: Tensor, target: Tensor, loss_function: str | Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Elementwise distance between two tensors of one shape.

    Args:
        prediction: any shape.
        target: the same shape; broadcasting here would silently average over pairs that do not belong together.
        loss_function: ``"l1"`` is the absolute difference, ``"l2"`` its square, ``"smooth_l1"`` half the square
            below 1 and the absolute difference minus a half above (the Huber loss with delta 1); or a function of the two,
            which gives a distance for each entry.

    Raises:
        RuntimeError: if the shapes differ.
        ValueError: if ``loss_function`` is none of the three, or gives something else than a distance for each entry.
    """
    if prediction.shape != target.shape:
        raise RuntimeError(
            f"distance_loss: prediction has shape {tuple(prediction.shape)}, target has {tuple(target.shape)}; they must be equal"
        )
    if loss_function == "l2":
        return cast("Tensor", _ELEMENTWISE.mse_loss(prediction, target, 0))
    if loss_function == "l1":
        return cast("Tensor", _ELEMENTWISE.l1_loss(prediction, target, 0))
    if loss_function == "smooth_l1":
        return cast("Tensor", _ELEMENTWISE.smooth_l1_loss(prediction, target, 0, 1.0))
    if callable(loss_function):
        if isinstance(loss_function, type):
            name = loss_function.__name__
            raise ValueError(
                f"loss_function is the class {name}: give an object of it, {name}(reduction='none')"
            )
        made = loss_function(prediction, target)
        if not isinstance(made, Tensor) or made.shape != prediction.shape:
            got = list(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise ValueError(
                f"loss_function gives a distance for each entry, {list(prediction.shape)}, got {got}: leave the reduction to"
                " the loss (reduction='none' of torch's)"
            )
        if not made.is_floating_point():
            raise ValueError(
                f"loss_function gives distances, which are floating-point numbers, got {made.dtype}"
            )
        return made
    raise ValueError(f"loss_function must be 'l1', 'l2' or 'smooth_l1', got {loss_function!r}")
