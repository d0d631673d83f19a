"""Numbers on their way into a dtype: exact conversion, saturation, and making tensordicts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from specgen_runtime.specs.arguments import integer_range
from specgen_runtime.typing import ArrayLike, SpecValue

__all__ = [
    "NUMPY_DTYPES",
    "SAME_DTYPES",
    "checks_encode",
    "combinations",
    "equal",
    "exact",
    "first_false",
    "new_tensordict",
    "saturate",
    "to_spec_array",
]

SAME_DTYPES: dict[torch.dtype, np.dtype[np.generic]] = {
    torch.bool: np.dtype(np.bool_),
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}
"""The NumPy dtype with exactly the same values; bfloat16 has none."""

NUMPY_DTYPES: dict[torch.dtype, np.dtype[np.generic]] = {**SAME_DTYPES, torch.bfloat16: np.dtype(np.float32)}
"""The smallest NumPy dtype that holds all values."""

_CHECKS_ENCODE = os.environ.get("CHECK_SPEC_ENCODE", "0").lower() in {"1", "true"}


def checks_encode(safe: bool | None = None) -> bool:
    """Whether `encode` and `to_numpy` check domains: environment variable `CHECK_SPEC_ENCODE=1`.

    The variable is read once, when this package is imported: `encode` stands in the loop of every environment.

    Args:
        safe: what the caller of `to_numpy` and the like wants instead.
    """
    return _CHECKS_ENCODE if safe is None else safe


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors on one device have the same shape and values; those of meta tensors are not known."""
    return left.shape == right.shape if left.is_meta else torch.equal(left, right)


def first_false(flags: torch.Tensor) -> tuple[int, ...] | None:
    """The index of the first False; None if there is none."""
    return None if bool(flags.all()) else tuple(flags.logical_not().nonzero()[0].tolist())


def new_tensordict(
    entries: Mapping[str, SpecValue],
    batch_size: torch.Size,
    device: torch.device | None,
    names: list[str | None] | None = None,
) -> TensorDict:
    """Make a tensordict of entries that are known to fit, without checking them again.

    The one place in this package that uses tensordict's unchecked constructor.
    """
    return TensorDict._new_unsafe(dict(entries), batch_size, device, names)


def combinations(counts: Sequence[int]) -> tuple[list[torch.Tensor], int]:
    """Every choice of one place of each of several rows, the last one changing fastest; and how many there are.

    Returns:
        For each row, int64 places of shape `(choices,)`; nothing and 0 if there are no rows.
    """
    if not counts:
        return [], 0
    grid = torch.meshgrid(*(torch.arange(count, device="cpu") for count in counts), indexing="ij")
    return [places.reshape(-1) for places in grid], math.prod(counts)


def exact(value: ArrayLike, name: str) -> torch.Tensor:
    """Read numbers without losing any: float64 or int64, on the CPU.

    Raises:
        TypeError: if they are not real numbers.
        ValueError: if an integer does not fit in 64 bits.
    """
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise TypeError(f"{name} must be real, got {value.dtype}")
        return value.detach().to("cpu", torch.float64 if value.is_floating_point() else torch.int64)
    array = _as_array(value, name)
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float64))
    if array.dtype.kind == "u" and array.size and int(array.max()) > integer_range(torch.int64)[1]:
        raise ValueError(f"{name} does not fit in 64 signed bits: {array.max()}")
    return torch.from_numpy(array.astype(np.int64))


def _as_array(value: ArrayLike, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise TypeError(f"{name} must be numbers of one shape, got {value!r}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be numbers, got {value!r}")
    return array


def to_spec_array(value: ArrayLike, dtype: torch.dtype, name: str) -> torch.Tensor:
    """Copy numbers into a fresh CPU tensor of `dtype`; floats may be rounded, integers never.

    Raises:
        TypeError: if they are not real numbers.
        ValueError: if `dtype` is an integer dtype and a value is fractional or does not fit.
    """
    target = NUMPY_DTYPES[dtype]
    if type(value) is np.ndarray:  # the usual cases, without detours
        if value.dtype is SAME_DTYPES.get(dtype):
            return torch.from_numpy(value.copy())
        if value.dtype.kind == target.kind == "f":
            return _as_tensor(value, dtype, target)
    array = _as_array(value, name)
    if target.kind != "f" and array.dtype != target and array.size:
        if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all():
            raise ValueError(f"{name} must be whole numbers for dtype {dtype}, got {value!r}")
        smallest, largest = integer_range(dtype)
        if int(array.min()) < smallest or int(array.max()) > largest:
            raise ValueError(f"{name} must be within {smallest} … {largest} for dtype {dtype}, got {value!r}")
    return _as_tensor(array, dtype, target)


def _as_tensor(
    array: np.ndarray[Any, np.dtype[Any]], dtype: torch.dtype, target: np.dtype[Any]
) -> torch.Tensor:
    return torch.from_numpy(array.astype(target, order="C")).to(dtype)


def saturate(
    value: torch.Tensor, low: torch.Tensor | float, high: torch.Tensor | float, dtype: torch.dtype
) -> torch.Tensor:
    """Bring values into `[low, high]` and `dtype`: the nearest allowed value, and NaN as if it were 0.

    Floats on their way into an integer dtype are rounded to the nearest whole number, ties to even.

    Args:
        value: values of any real dtype.
        low: smallest results, representable in `dtype`; broadcasts with `value`.
        high: largest results, representable in `dtype`; broadcasts with `value`.
        dtype: the dtype of the result.
    """
    if value.dtype == dtype and dtype != torch.bool:
        if dtype.is_floating_point:
            value = torch.nan_to_num(value, 0.0, torch.inf, -torch.inf)
        if isinstance(low, torch.Tensor) and isinstance(high, torch.Tensor):
            return torch.clamp(value, low, high)
        if not isinstance(low, torch.Tensor) and not isinstance(high, torch.Tensor):
            return torch.clamp(value, low, high)
    if value.is_floating_point():
        value = torch.where(value.isnan(), 0, value)
    low = torch.as_tensor(low, dtype=dtype, device=value.device)
    high = torch.as_tensor(high, dtype=dtype, device=value.device)
    if dtype.is_floating_point:
        return value.to(dtype).clamp(low, high)
    # A limit without dimensions would be read in the dtype of the value, and wrap around there.
    wide = torch.promote_types(value.dtype, dtype)
    value = value.round() if value.is_floating_point() else value.to(wide)
    # Compared before the cast, which would wrap around.
    return torch.where(value >= high, high, torch.where(value <= low, low, value.to(dtype)))
