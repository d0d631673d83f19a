"""Reading the bounds of `Bounded`: numbers and arrays, into a dtype, without changing them on the way."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from specgen_runtime.specs.arguments import integer_range
from specgen_runtime.specs.values import SAME_DTYPES, exact, first_false
from specgen_runtime.specs.variable_dims import drawn_size
from specgen_runtime.typing import ArrayLike

__all__ = ["Bounds", "distinct", "range_text", "read_bounds", "widths"]

# Their differences do not fit into float32 exactly.
_WIDE = (torch.int32, torch.int64)


class Bounds(NamedTuple):
    """Bounds that have been read, on the CPU: single numbers (0-d) or tensors of the spec's shape."""

    low: torch.Tensor
    """the smallest allowed values, of the spec's dtype."""
    high: torch.Tensor
    """the largest allowed values, of the spec's dtype."""
    shape: torch.Size
    """the spec's shape."""


def read_bounds(low: ArrayLike, high: ArrayLike, shape: torch.Size | None, dtype: torch.dtype) -> Bounds:
    """Read both bounds and the shape that they and `shape` agree on.

    Raises:
        RuntimeError: if no shape is given, or the shapes differ.
        TypeError: if a bound is not made of numbers.
        ValueError: if a bound is NaN or not representable in `dtype`, or if low is above high.
    """
    lowest, highest = _bound(low, "low", dtype), _bound(high, "high", dtype)
    size = _common_shape(lowest, highest, shape)
    if isinstance(low, int | float) and isinstance(high, int | float):
        in_order = low <= high  # false for NaN
    else:
        in_order = bool((lowest <= highest).all())
    if not in_order:
        raise _wrong_bounds(lowest, highest)
    return Bounds(lowest, highest, size)


def _bound(value: ArrayLike, name: str, dtype: torch.dtype) -> torch.Tensor:
    """Copy a bound into `dtype`, refusing what would change on the way; NaN is found later."""
    if isinstance(value, int | float):
        return _number(value, name, dtype)
    if isinstance(value, torch.Tensor) and value.dtype == dtype:
        return value.detach().clone().cpu()
    if type(value) is np.ndarray and value.dtype is SAME_DTYPES.get(dtype):
        return torch.from_numpy(value.copy())
    numbers = exact(value, name)
    if dtype.is_floating_point:
        bound = numbers.to(dtype, copy=True)
        infinite = bound.isinf()
        if bool(infinite.any()) and bool((infinite & numbers.isfinite()).any()):
            raise ValueError(f"{name}={range_text(numbers)} is too large for dtype {dtype}")
        return bound
    smallest, largest = integer_range(dtype)
    if numbers.is_floating_point() and not bool(((numbers == numbers.floor()) & numbers.isfinite()).all()):
        raise ValueError(f"{name}={range_text(numbers)} must be a whole number for dtype {dtype}")
    if numbers.numel() and not smallest <= int(numbers.min()) <= int(numbers.max()) <= largest:
        raise ValueError(
            f"{name}={range_text(numbers)} must be within {smallest} … {largest} for dtype {dtype}"
        )
    return numbers.to(dtype, copy=True)


def _number(value: float, name: str, dtype: torch.dtype) -> torch.Tensor:
    """The same for one Python number, without a detour through arrays."""
    if dtype.is_floating_point:
        try:
            bound = torch.scalar_tensor(float(value), dtype=dtype, device="cpu")
        except (OverflowError, RuntimeError):
            raise ValueError(f"{name}={value} is too large for dtype {dtype}") from None
        if math.isinf(bound.item()) and not math.isinf(value):
            raise ValueError(f"{name}={value} is too large for dtype {dtype}")
        return bound
    smallest, largest = integer_range(dtype)
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{name}={value} must be a whole number for dtype {dtype}")
    if not smallest <= value <= largest:
        raise ValueError(f"{name}={value} must be within {smallest} … {largest} for dtype {dtype}")
    return torch.scalar_tensor(int(value), dtype=dtype, device="cpu")


def _common_shape(low: torch.Tensor, high: torch.Tensor, shape: torch.Size | None) -> torch.Size:
    given = [bound.shape for bound in (low, high) if bound.ndim]
    if shape is None and not given:
        raise RuntimeError("Bounded needs a shape: pass shape=…, or low or high as an array")
    size = given[0] if shape is None else shape
    drawn = drawn_size(size)
    if any(bound != drawn for bound in given):
        text = "not given" if shape is None else str(tuple(shape))
        raise RuntimeError(
            f"the shapes of low, high and shape differ: low has {tuple(low.shape)}, high has "
            f"{tuple(high.shape)}, shape is {text} (single numbers fit any shape)"
        )
    return size


def _wrong_bounds(low: torch.Tensor, high: torch.Tensor) -> ValueError:
    for name, bound in (("low", low), ("high", high)):
        if bool(bound.isnan().any()):
            return ValueError(f"{name} must not be NaN")
    right = low <= high
    low, high = low.expand(right.shape), high.expand(right.shape)
    place = first_false(right) or ()
    where = f" at index {place}" if place else ""
    return ValueError(
        f"low must not be above high: low={low[place].item()}, high={high[place].item()}{where}"
    )


def widths(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """high - low; for integers the number of values, as a float of enough precision."""
    if low.dtype.is_floating_point:
        return high - low
    if low.dtype in _WIDE:
        # In float64: the difference of two int64 bounds may not fit in int64.
        whole = high.to(torch.int64) - low.to(torch.int64)
        return whole.double() + (whole < 0) * 2.0**64 + 1
    return (high.float() - low.float()) + 1


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without the repetitions of its values along expanded dimensions, which get size 1."""
    strides = tensor.stride()
    if 0 not in strides or not tensor.numel():
        return tensor
    return tensor[tuple(slice(None) if stride else slice(1) for stride in strides)]


def range_text(values: torch.Tensor) -> str:
    """One number if all are equal, else the smallest and the largest."""
    if values.is_meta or not values.numel():
        return "[]"
    smallest, largest = values.min().item(), values.max().item()
    return f"{smallest}" if smallest == largest else f"[{smallest} … {largest}]"
