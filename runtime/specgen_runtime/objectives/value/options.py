"""The options that all value estimators share, and checks of them."""

from __future__ import annotations

from typing import TypedDict

import torch
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from specgen_runtime.typing import NestedKey


class EstimatorOptions(TypedDict, total=False):
    """The keywords that every value estimator takes; `ValueEstimatorBase` documents them."""

    value_network: TensorDictModuleBase | None
    differentiable: bool
    shifted: bool
    shifted_budget: int
    skip_existing: bool | None
    device: torch.device | str | None
    deactivate_vmap: bool
    value_chunk_size: int | None
    num_chunks: int | None
    num_chunk: int | None
    value_chunk_dim: int
    group_key: NestedKey | None


def checked_discount(
    name: str, value: float | Tensor, device: torch.device | None, *, scalar: bool = False
) -> Tensor:
    """A discount as a floating-point tensor of its own: a number as a float32 scalar.

    Args:
        name: of the argument.
        value: a number, or a tensor of numbers that broadcasts to the rewards.
        device: where it is to be.
        scalar: refuse more than one number.

    Raises:
        TypeError: if it is not a number or a tensor.
        ValueError: if one is outside [0, 1], or there are more than one and `scalar`.
    """
    tensor = checked_numbers(name, value, device)
    if scalar and tensor.numel() != 1:
        raise ValueError(f"{name} must be one number, got a tensor of shape {tuple(tensor.shape)}")
    if not ((tensor >= 0) & (tensor <= 1)).all():
        raise ValueError(f"{name} must be in [0, 1], got {value}")
    return tensor.reshape(()) if scalar else tensor


def checked_numbers(name: str, value: float | Tensor, device: torch.device | None) -> Tensor:
    """``value`` as a floating-point tensor of its own.

    Raises:
        TypeError: if it is not a number or a tensor.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
        raise TypeError(f"{name} must be a number or a tensor, got {value!r}")
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().clone().to(device)
    return torch.as_tensor(value, dtype=torch.float32, device=device)


def positive_or_none(name: str, value: int | None) -> int | None:
    """``value`` if it is None or a positive integer.

    Raises:
        TypeError: if it is something else.
        ValueError: if it is not positive.
    """
    return None if value is None else positive(name, value)


def positive(name: str, value: int) -> int:
    """``value`` if it is a positive integer.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is not positive.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return value
