"""`Categorical`: class indices, some of which may be masked."""

from __future__ import annotations

from typing import Self

import torch

from specgen_runtime.specs.arguments import as_count
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.classes.indices import ElementSpec
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["Categorical"]


class Categorical(ElementSpec):
    """Indices `0 … n - 1` of classes.

    Args:
        n: the number of classes; -1 if it is not known yet (see `set_provisional_n`).
        shape: the shape; an integer is one dimension, None is no dimension. A dimension of -1 has any size.
        device: the device; torch's default device if None.
        dtype: the dtype; it must hold `n - 1`.
        mask: the allowed classes, True for allowed; broadcasts to `(*shape, n)`.

    Raises:
        TypeError: if `n` is not a whole number.
        ValueError: if `n` is neither positive nor -1, or too large for `dtype`.
        RuntimeError: if the mask's shape does not fit, or `n` is unknown and there is a mask.
    """

    def __init__(
        self,
        n: int,
        shape: ShapeLike | None = (),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int64,
        mask: ArrayLike | None = None,
    ) -> None:
        count = as_count(n, "n", smallest=-1)
        if count == 0:
            raise ValueError("n must be at least 1 (or -1 for a number not known yet), got 0")
        self._provisional_n: int | None = None
        super().__init__(count, () if shape is None else shape, device, dtype)
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
    def space(self) -> CategoricalBox:
        """The classes."""
        return CategoricalBox(self._n)

    def set_provisional_n(self, n: int) -> None:
        """Set the number of classes to draw from, for a spec whose own is unknown (`n=-1`).

        Any class remains a member. Without effect on a spec whose number of classes is known.

        Raises:
            ValueError: if `n` is not positive, or there is a mask over another number of classes.
        """
        count = as_count(n, "n")
        if self._n < 0 and self._mask is not None and self._mask.shape[-1] != count:
            raise ValueError(
                f"the mask is over {self._mask.shape[-1]} classes, got n={count}: remove it first"
            )
        self._provisional_n = count

    @property
    def _most(self) -> int | None:
        if self._n >= 0:
            return self._n - 1
        return None if self._mask is None else self._mask.shape[-1] - 1

    def _same_domain(self, other: Self) -> bool:
        return self._n == other._n and super()._same_domain(other)

    def _domain_text(self) -> str:
        return f"n={self._n}" + self._masked_text()
