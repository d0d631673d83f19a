"""`Categorical`: class indices, some of which may be masked."""

from __future__ import annotations

from typing import Self

import torch

from specgen_runtime.specs.arguments import as_count, integer_range
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.masks import draw_allowed, nearest_allowed, read_mask
from specgen_runtime.specs.values import saturate
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["Categorical"]


class Categorical(LeafSpec):
    """Indices `0 … n - 1` of classes.

    Args:
        n: the number of classes; -1 if it is not known yet (see `set_provisional_n`).
        shape: the shape; an integer is one dimension.
        device: the device; torch's default device if None.
        dtype: the dtype; it must hold `n - 1`.
        mask: bool tensor of allowed classes, True for allowed; its shape broadcasts to `(*shape, n)`.

    Raises:
        TypeError: if `n` is not a whole number.
        ValueError: if `n` is neither positive nor -1, or too large for `dtype`.
        RuntimeError: if the mask's shape does not fit.
    """

    _tensors = ("_mask",)
    _checks_encode = True

    def __init__(
        self,
        n: int,
        shape: ShapeLike = (),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int64,
        mask: torch.Tensor | None = None,
    ) -> None:
        super().__init__(shape, device, dtype)
        self._n = as_count(n, "n", smallest=-1)
        if self._n == 0:
            raise ValueError("n must be at least 1 (or -1 for a number not known yet), got 0")
        _check_holds(self._dtype, self._n)
        self._provisional_n: int | None = None
        self._mask: torch.Tensor | None = None
        self.update_mask(mask)

    @property
    def n(self) -> int:
        """The number of classes.

        Raises:
            RuntimeError: if it is unknown and no provisional one was set.
        """
        if self._n >= 0:
            return self._n
        if self._provisional_n is None:
            raise RuntimeError(
                "the number of classes of this Categorical is unknown (n=-1): call set_provisional_n(n) first"
            )
        return self._provisional_n

    @property
    def mask(self) -> torch.Tensor | None:
        """The allowed classes, bool of shape `(*shape, n)`; None if all are."""
        return self._mask

    @property
    def space(self) -> CategoricalBox:
        """The classes."""
        return CategoricalBox(self._n)

    def set_provisional_n(self, n: int) -> None:
        """Set the number of classes to draw from, for a spec whose own is unknown (`n=-1`)."""
        self._provisional_n = as_count(n, "n")

    def update_mask(self, mask: ArrayLike | None) -> None:
        """Allow only some classes, in place; None allows all.

        Args:
            mask: bools, True for allowed; the shape broadcasts to `(*shape, n)`.

        Raises:
            RuntimeError: if the shape does not fit.
            ValueError: if the mask does not hold bools.
        """
        self._mask = None if mask is None else read_mask(mask, (*self._shape, self.n), self._device)

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw classes uniformly among those allowed, from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: if the number of classes is unknown, or a mask allows none.
        """
        size = self._sized(shape)
        if self._mask is None:
            return torch.randint(self.n, size, dtype=self._dtype, device=self._device)
        return draw_allowed(self._mask, size).to(self._dtype)

    def _outside(self, value: torch.Tensor) -> str | None:
        # Compared as they are: casting first would let 1.5 pass for 1.
        inside = value >= 0
        if self._n >= 0:
            inside &= value <= self._n - 1
        if value.is_floating_point():
            inside &= value == value.floor()
        problem = self._first_outside(
            value, inside, f"classes 0 … {self._n - 1}" if self._n > 0 else "classes"
        )
        if problem is not None or self._mask is None:
            return problem
        allowed = self._mask.expand(*value.shape, self._n).gather(-1, value.long().unsqueeze(-1)).squeeze(-1)
        return self._first_outside(value, allowed, "classes that the mask allows")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        largest = self._n - 1 if self._n > 0 else torch.iinfo(torch.int64).max
        classes = saturate(val, 0, largest, torch.int64)
        if self._mask is not None:
            classes = nearest_allowed(classes, self._mask)
        return classes.to(self._dtype)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        _check_holds(dtype, self._n)
        new = self.clone()
        new._dtype = dtype
        return new

    def _same_domain(self, other: LeafSpec) -> bool:
        return isinstance(other, Categorical) and self._n == other._n and super()._same_domain(other)

    def _domain_text(self) -> str:
        return f"n={self._n}" + (", masked" if self._mask is not None else "")


def _check_holds(dtype: torch.dtype, n: int) -> None:
    if dtype.is_floating_point:
        return
    largest = integer_range(dtype)[1]
    if n - 1 > largest:
        raise ValueError(f"dtype {dtype} holds at most {largest + 1} classes, got n={n}")
