"""`OneHot`: classes as one-hot vectors, some of which may be masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specgen_runtime.specs.arguments import as_count
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.classes.vectors import VectorSpec
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

if TYPE_CHECKING:
    from specgen_runtime.specs.classes.categorical import Categorical

__all__ = ["OneHot"]


class OneHot(VectorSpec):
    """One of `n` classes, as a vector with a single 1 along the last dimension.

    Args:
        n: the number of classes.
        shape: the shape, ending with `n`; `(n,)` if None. A dimension of -1 has any size.
        device: the device; torch's default device if None.
        dtype: the dtype.
        use_register: for outcomes that are not known beforehand. `encode` then takes values of any kind
            (numbers, texts) and gives each new one the next class; `to_numpy` gives the values back. Copies of
            the spec know what it had seen when they were made.
        mask: the allowed classes, True for allowed; broadcasts to `shape`.

    Raises:
        TypeError: if `n` is not a whole number.
        ValueError: if `n` is not positive, or `shape` does not end with it.
        RuntimeError: if the mask's shape does not fit.
    """

    def __init__(
        self,
        n: int,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.bool,
        use_register: bool = False,
        mask: ArrayLike | None = None,
    ) -> None:
        super().__init__((as_count(n, "n"),), shape, device, dtype, use_register, mask, "n")

    @property
    def n(self) -> int:
        """The number of classes."""
        return self._widths[0]

    @property
    def space(self) -> CategoricalBox:
        """The classes."""
        return CategoricalBox(self.n)

    def to_categorical_spec(self) -> Categorical:
        """The spec of what `to_categorical` returns, with the same mask: `Categorical` of int64."""
        from specgen_runtime.specs.classes.categorical import Categorical  # it stands on this module

        return Categorical(self.n, self._shape[:-1], self._device, mask=self._mask)

    def _domain_text(self) -> str:
        return f"n={self.n}" + self._masked_text()
