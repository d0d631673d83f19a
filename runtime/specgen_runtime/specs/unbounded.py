"""`Unbounded`: tensors of any value."""

from __future__ import annotations

from typing import ClassVar, Self, cast

import torch

from specgen_runtime.specs.arguments import as_domain_dtype, integer_range
from specgen_runtime.specs.boxes import ContinuousBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import saturate
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["Unbounded", "UnboundedContinuous", "UnboundedDiscrete"]


class Unbounded(LeafSpec):
    """Tensors of any value of a dtype (but NaN).

    `rand` draws standard normal floats, integers over the dtype's whole range, and fair bools.

    Args:
        shape: the shape; an integer is one dimension.
        device: the device; torch's default device if None.
        dtype: the dtype; torch's default dtype (float32) if None.
    """

    _only: ClassVar[str | None] = None
    """The domain whose dtypes alone the class takes."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:  # noqa: D102
        # No docstring: editors would show it in place of the class's.
        if cls is not Unbounded:
            return super().__new__(cls)
        dtype = kwargs.get("dtype", args[2] if len(args) > 2 else None)
        whole = isinstance(dtype, torch.dtype) and not dtype.is_floating_point
        return super().__new__(UnboundedDiscrete if whole else UnboundedContinuous)  # type: ignore[return-value]

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(shape, device, as_domain_dtype(dtype, self._only, type(self).__name__))

    @property
    def space(self) -> ContinuousBox:
        """The smallest and largest finite values of the dtype."""
        low, high = _limits(self._dtype)
        return ContinuousBox(
            torch.tensor(low, dtype=self._dtype, device=self._device).expand(self._size),
            torch.tensor(high, dtype=self._dtype, device=self._device).expand(self._size),
        )

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw a tensor from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        out = torch.empty(self._sized(shape), dtype=self._dtype, device=self._device)
        if self._dtype.is_floating_point:
            return out.normal_()
        if self._dtype == torch.bool:
            return out.random_()
        # Without a first argument only the non-negative half would be drawn.
        return out.random_(integer_range(self._dtype)[0], None)

    @property
    def _draws_in_order(self) -> bool:
        return not self._dtype.is_floating_point  # normals are drawn in blocks

    def _contains(self, value: torch.Tensor) -> bool:
        return not (self._dtype.is_floating_point and bool(value.isnan().any()))

    def _outside(self, value: torch.Tensor) -> str | None:
        if not self._dtype.is_floating_point:
            return None
        return self._first_outside(value, value.isnan().logical_not_(), "a number")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        if self._dtype.is_floating_point:
            return saturate(val, -torch.inf, torch.inf, self._dtype)
        return saturate(val, *integer_range(self._dtype), self._dtype)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        return cast("Self", Unbounded(self._shape, self._device, dtype))

    def _name(self) -> str:
        return "Unbounded"


class UnboundedContinuous(Unbounded):
    """What `Unbounded` makes for floats; takes the same arguments.

    Raises:
        TypeError: if `dtype` is not a floating-point dtype.
    """

    _only = "continuous"


class UnboundedDiscrete(Unbounded):
    """What `Unbounded` makes for integers and bools; takes the same arguments, with int64 as the default dtype.

    Raises:
        TypeError: if `dtype` is a floating-point dtype.
    """

    _only = "discrete"

    def cardinality(self) -> int:
        """The number of members: that of the dtype's values, to the power of the number of elements."""
        smallest, largest = integer_range(self._dtype)
        return int((largest - smallest + 1) ** self._size.numel())


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return info.min, info.max
    return integer_range(dtype)
