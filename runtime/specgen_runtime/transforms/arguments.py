"""Reading the constructor arguments of generated transforms."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.typing import ArrayLike

__all__ = ["as_float_tensor", "as_numbers", "dtype_name", "in_dtype"]


def as_float_tensor(value: ArrayLike, keyword: str) -> Tensor:
    """A tensor of floats: a tensor of floats keeps its dtype, anything else gets torch's default dtype.

    Raises:
        TypeError: if `value` is not made of real numbers; `keyword` says which argument it was.
    """
    try:
        made = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{keyword} is a number, a list of numbers or a tensor, got {value!r}") from None
    if made.is_complex() or made.dtype == torch.bool:
        raise TypeError(f"{keyword} is made of real numbers, got {made.dtype}")
    if isinstance(value, Tensor) and made.is_floating_point():
        return made.detach().clone()
    return made.to(torch.get_default_dtype())


def as_numbers(value: ArrayLike, keyword: str, dtype: torch.dtype) -> Tensor:
    """A tensor of one number, or one for each row.

    Args:
        value: a number, a list or a tensor.
        keyword: which argument it is.
        dtype: of the result; whole numbers become floats, floats no whole numbers.

    Raises:
        TypeError: if `value` is not made of numbers of that kind.
    """
    try:
        made = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{keyword} is a number, a list of numbers or a tensor, got {value!r}") from None
    same = (made.dtype == torch.bool) is (dtype == torch.bool)
    if made.is_complex() or not same or (made.is_floating_point() and not dtype.is_floating_point):
        raise TypeError(f"{keyword} is {dtype_name(dtype)}, got {made.dtype}")
    return made.detach().to(dtype, copy=True)


@overload
def in_dtype(value: Tensor, dtype: torch.dtype) -> Tensor: ...
@overload
def in_dtype(value: None, dtype: torch.dtype) -> None: ...
def in_dtype(value: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A tensor in another dtype; ``None`` for ``None``."""
    return None if value is None else value.to(dtype)
