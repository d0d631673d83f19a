"""`Binary`: tensors of zeros and ones."""

from __future__ import annotations

from typing import Self

import torch

from specgen_runtime.specs.arguments import as_count, as_size
from specgen_runtime.specs.boxes import BinaryBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import saturate
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["Binary"]


class Binary(LeafSpec):
    """Tensors of zeros and ones, each element by itself.

    Args:
        n: the number of elements; the shape is then `(n,)`.
        shape: the shape; if `n` is given too, it must end with it.
        device: the device; torch's default device if None.
        dtype: the dtype.

    Raises:
        TypeError: if neither `n` nor `shape` is given.
        ValueError: if they contradict each other.
    """

    _checks_encode = True

    def __init__(
        self,
        n: int | None = None,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int8,
    ) -> None:
        if shape is None:
            if n is None:
                raise TypeError("Binary needs n or shape")
            shape = (as_count(n, "n", smallest=0),)
        size = as_size(shape)
        if n is not None and (size[-1] if size else 0) != n:
            raise ValueError(f"the last dimension of shape must be n={n}, got shape {tuple(size)}")
        super().__init__(size, device, dtype)

    @property
    def space(self) -> BinaryBox:
        """Vectors of zeros and ones, as long as the last dimension."""
        return BinaryBox(self._shape[-1] if self._shape else 1)

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw fair bits from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        return torch.randint(2, self._sized(shape), dtype=self._dtype, device=self._device)

    def _outside(self, value: torch.Tensor) -> str | None:
        return self._first_outside(value, (value == 0) | (value == 1), "0 or 1")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        return saturate(val, 0, 1, torch.int64).to(self._dtype)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        new = self.clone()
        new._dtype = dtype
        return new
