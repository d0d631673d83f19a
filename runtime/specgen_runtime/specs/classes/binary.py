"""`Binary`: tensors of zeros and ones."""

from __future__ import annotations

import torch

from specgen_runtime.specs.arguments import as_count, as_size
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.classes.indices import ElementSpec
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["Binary"]


class Binary(ElementSpec):
    """Tensors of zeros and ones, each element by itself: of two classes, 0 and 1.

    Args:
        n: the number of elements; the shape is then `(n,)`. (The property `n` is the number of classes, 2.)
        shape: the shape; if `n` is given too, it must end with it. A dimension of -1 has any size.
        device: the device; torch's default device if None.
        dtype: the dtype.

    Raises:
        TypeError: if neither `n` nor `shape` is given.
        ValueError: if they contradict each other.
    """

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
        size = as_size(shape, variable=True)
        if n is not None and (size[-1] if size else 0) != n:
            raise ValueError(f"the last dimension of shape must be n={n}, got shape {tuple(size)}")
        super().__init__(2, size, device, dtype)

    @property
    def space(self) -> CategoricalBox:
        """The two classes, 0 and 1."""
        return CategoricalBox(2)

    def _domain_text(self) -> str:
        return self._masked_text().removeprefix(", ")
