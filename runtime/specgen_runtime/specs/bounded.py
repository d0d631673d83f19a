"""`Bounded`: tensors between a low and a high value."""

from __future__ import annotations

from typing import Literal, Self

import torch

from specgen_runtime.specs.arguments import as_device, as_dtype, as_size, integer_range
from specgen_runtime.specs.boxes import ContinuousBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import exact, saturate
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["Bounded"]

# Integers up to here are exact in float64, and so are draws among them.
_EXACT_SPAN = 2.0**53


class Bounded(LeafSpec):
    """Tensors between `low` and `high`, both included, element by element.

    `rand` draws uniformly; an element that is unbounded on both sides is standard normal, and one that is
    unbounded on one side lies at the absolute value of a standard normal from its bound.

    Args:
        low: the smallest allowed values: one number, or an array of the spec's shape.
        high: the largest allowed values: one number, or an array of the spec's shape.
        shape: the shape; may be left out if `low` or `high` is an array.
        device: the device; torch's default device if None.
        dtype: the dtype; torch's default dtype (float32) if None, even for float64 bounds.

    Raises:
        RuntimeError: if no shape is given, or the shapes differ.
        ValueError: if a bound is NaN or not representable in `dtype`, or if low is above high.
    """

    _tensors = ("_low", "_high", "_width")

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        dtype = as_dtype(dtype)
        device = as_device(device)
        lowest = _bound(low, "low", dtype)
        highest = _bound(high, "high", dtype)
        size = _common_shape(lowest, highest, None if shape is None else as_size(shape))
        super().__init__(size, device, dtype)
        self._low = lowest.to(device).expand(size)
        self._high = highest.to(device).expand(size)
        wrong = self._low > self._high
        if bool(wrong.any()):
            place = tuple(wrong.nonzero()[0].tolist())
            where = f" at index {place}" if place else ""
            raise ValueError(
                f"low must not be above high: low={self._low[place].item()}, "
                f"high={self._high[place].item()}{where}"
            )
        self._width = self._widths(lowest.to(device), highest.to(device)).expand(size)
        self._refresh()

    @property
    def low(self) -> torch.Tensor:
        """The smallest allowed values."""
        return self._low

    @property
    def high(self) -> torch.Tensor:
        """The largest allowed values."""
        return self._high

    @property
    def space(self) -> ContinuousBox:
        """The bounds."""
        return ContinuousBox(self._low, self._high)

    # Drawing. What can be decided once is: the widths, and which way applies.

    def _widths(self, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        """high - low; for integers the number of values, as a float of enough precision."""
        if self._dtype.is_floating_point:
            return high - low
        if self._dtype in (torch.int32, torch.int64):
            # In float64: the difference of two int64 bounds may not fit in int64.
            whole = high.to(torch.int64) - low.to(torch.int64)
            return whole.double() + (whole < 0) * 2.0**64 + 1
        return (high.float() - low.float()) + 1

    def _refresh(self) -> None:
        self._drawn: Literal["uniform", "open", "integer", "long"]
        if self._dtype.is_floating_point:
            self._drawn = "uniform" if bool(self._width.isfinite().all()) else "open"
        else:
            self._drawn = "long" if bool((self._width > _EXACT_SPAN).any()) else "integer"

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw a tensor from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        size = self._sized(shape)
        if self._drawn == "uniform":
            # bfloat16 has too few values between 0 and 1 to draw from.
            dtype = torch.get_default_dtype() if self._dtype == torch.bfloat16 else self._dtype
            out = torch.rand(size, dtype=dtype, device=self._device).mul_(self._width).add_(self._low)
            if dtype != self._dtype:
                out = out.to(self._dtype)
            return torch.minimum(out, self._high, out=out)  # the sum may have been rounded above
        if self._drawn == "open":
            return self._rand_open(size)
        offset = torch.rand(size, dtype=self._width.dtype, device=self._device).mul_(self._width)
        if self._drawn == "long":
            return self._rand_long(offset)
        return torch.minimum(offset.long().add_(self._low), self._high).to(self._dtype)

    def _rand_open(self, size: torch.Size) -> torch.Tensor:
        """Draw floats where a bound is infinite, or so far from the other that the width overflows."""
        low, high = self._low, self._high
        normal = torch.randn(size, dtype=self._dtype, device=self._device)
        uniform = torch.rand(size, dtype=self._dtype, device=self._device)
        between = low * (1 - uniform) + high * uniform
        below = torch.where(high.isfinite(), high - normal.abs(), normal)
        above = torch.where(high.isfinite(), between, low + normal.abs())
        return torch.where(low.isfinite(), above, below).clamp(low, high)

    def _rand_long(self, offset: torch.Tensor) -> torch.Tensor:
        """Draw int64 over ranges that float64 cannot count: measured from the nearer end."""
        span = self._width - 1
        offset = torch.minimum(offset.floor(), span)
        lower = offset <= span / 2
        # A distance is at most half of 2**64; the largest float64 below 2**63 keeps it inside int64.
        distance = torch.where(lower, offset, span - offset).clamp(max=2.0**63 - 2.0**10).long()
        return torch.where(lower, self._low + distance, self._high - distance)

    @property
    def _draws_in_order(self) -> bool:
        return self._drawn != "open"

    # Membership

    def _outside(self, value: torch.Tensor) -> str | None:
        inside = (value >= self._low) & (value <= self._high)  # false for NaN
        if bool(inside.all()):
            return None
        place = tuple(inside.logical_not().nonzero()[0].tolist())
        low = self._low.expand(value.shape)[place].item()
        high = self._high.expand(value.shape)[place].item()
        return self._first_outside(value, inside, f"values in [{low}, {high}]")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        return saturate(val, self._low, self._high, self._dtype)

    # Copies

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        """Return the spec in another dtype, with the bounds of the values that it shares with this one.

        From floats to integers, the bounds move inwards to whole numbers. Bounds beyond the dtype's range
        stop at its limits; infinite bounds stay infinite among floats.
        """
        low, high = self._low, self._high
        if dtype.is_floating_point:
            info = torch.finfo(dtype)
            low, high = (
                torch.where(bound.isfinite(), bound.double().clamp(info.min, info.max), bound.double()).to(
                    dtype
                )
                for bound in (low, high)
            )
        else:
            smallest, largest = integer_range(dtype)
            if self._dtype.is_floating_point:
                low, high = low.ceil(), high.floor()
            low = saturate(low, smallest, largest, dtype)
            high = saturate(high, smallest, largest, dtype)
        return type(self)(low, high, self._shape, self._device, dtype)

    def _domain_text(self) -> str:
        return f"low={_range_text(self._low)}, high={_range_text(self._high)}"


def _bound(value: ArrayLike, name: str, dtype: torch.dtype) -> torch.Tensor:
    """Read a bound into `dtype`, on the CPU, refusing what would change on the way."""
    numbers = exact(value, name)
    if bool(numbers.isnan().any()):
        raise ValueError(f"{name} must not be NaN")
    if dtype.is_floating_point:
        bound = numbers.to(dtype)
        if bool((bound.isinf() & numbers.isfinite()).any()):
            raise ValueError(f"{name}={_range_text(numbers)} is too large for dtype {dtype}")
        return bound
    smallest, largest = integer_range(dtype)
    if numbers.is_floating_point() and not bool(((numbers == numbers.floor()) & numbers.isfinite()).all()):
        raise ValueError(f"{name}={_range_text(numbers)} must be a whole number for dtype {dtype}")
    if numbers.numel() and not smallest <= int(numbers.min()) <= int(numbers.max()) <= largest:
        raise ValueError(
            f"{name}={_range_text(numbers)} must be within {smallest} … {largest} for dtype {dtype}"
        )
    return numbers.to(dtype)


def _common_shape(low: torch.Tensor, high: torch.Tensor, shape: torch.Size | None) -> torch.Size:
    shapes = {bound.shape for bound in (low, high) if bound.ndim}
    if shape is not None:
        shapes.add(shape)
    if not shapes:
        raise RuntimeError("Bounded needs a shape: pass shape=…, or low or high as an array")
    if len(shapes) > 1:
        given = "not given" if shape is None else str(tuple(shape))
        raise RuntimeError(
            f"the shapes of low, high and shape differ: low has {tuple(low.shape)}, high has "
            f"{tuple(high.shape)}, shape is {given} (single numbers fit any shape)"
        )
    return shapes.pop()


def _range_text(values: torch.Tensor) -> str:
    """One number if all are equal, else the smallest and the largest."""
    if not values.numel():
        return "[]"
    smallest, largest = values.min().item(), values.max().item()
    return f"{smallest}" if smallest == largest else f"[{smallest} … {largest}]"
