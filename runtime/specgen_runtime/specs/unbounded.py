"""`Unbounded`: tensors of any value."""

from __future__ import annotations

from typing import Self

import torch

from specgen_runtime.specs.arguments import integer_range
from specgen_runtime.specs.boxes import ContinuousBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import saturate
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["Unbounded"]


class Unbounded(LeafSpec):
    """Tensors of any value of a dtype (but NaN).

    `rand` draws standard normal floats, integers over the dtype's whole range, and fair bools.

    Args:
        shape: the shape; an integer is one dimension.
        device: the device; torch's default device if None.
        dtype: the dtype; torch's default dtype (float32) if None.
    """

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(shape, device, dtype)

    @property
    def space(self) -> ContinuousBox:
        """The smallest and largest finite values of the dtype."""
        low, high = _limits(self._dtype)
        return ContinuousBox(
            torch.tensor(low, dtype=self._dtype, device=self._device).expand(self._shape),
            torch.tensor(high, dtype=self._dtype, device=self._device).expand(self._shape),
        )

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw a tensor from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        size = self._sized(shape)
        if self._dtype.is_floating_point:
            return torch.randn(size, dtype=self._dtype, device=self._device)
        out = torch.empty(size, dtype=self._dtype, device=self._device)
        if self._dtype == torch.bool:
            return out.random_()
        # Without a first argument only the non-negative half would be drawn.
        return out.random_(integer_range(self._dtype)[0], None)

    @property
    def _draws_in_order(self) -> bool:
        return not self._dtype.is_floating_point  # normals are drawn in blocks

    def _outside(self, value: torch.Tensor) -> str | None:
        if not self._dtype.is_floating_point:
            return None
        return self._first_outside(value, value.isnan().logical_not_(), "a number")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        if self._dtype.is_floating_point:
            return saturate(val, -torch.inf, torch.inf, self._dtype)
        return saturate(val, *integer_range(self._dtype), self._dtype)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        new = self.clone()
        new._dtype = dtype
        return new


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return info.min, info.max
    return integer_range(dtype)
