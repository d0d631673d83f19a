"""One-element tensors cut from a block: making a tensor takes microseconds, writing a number does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Scalars"]


class Scalars:
    """Hands out tensors of shape `(1,)`, each once; they share storage block by block.

    Writing into one changes no other. A tensor that is kept keeps its block: `size` elements.

    Args:
        dtype: NumPy's dtype of the elements.
        size: how many a block has.
    """

    def __init__(self, dtype: Any, size: int = 512) -> None:
        self._dtype = np.dtype(dtype)
        self._size = size
        self._at = size

    def take(self, value: Any) -> Tensor:
        """A tensor on the CPU that holds `value`."""
        at = self._at
        if at == self._size:
            self._block = np.empty((self._size, 1), dtype=self._dtype)
            self._tensors = torch.from_numpy(self._block).unbind(0)
            at = 0
        self._block[at, 0] = value
        self._at = at + 1
        return self._tensors[at]

    def __reduce__(self) -> tuple[Any, ...]:
        return Scalars, (self._dtype.str, self._size)
