"""What steps computed by NumPy call, on arrays and on the numbers that stand for what is stored as `(1,)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from specgen_runtime.functional import resize_image
from specgen_runtime.typing import Array

__all__ = [
    "filled_row",
    "row_concat",
    "row_max",
    "row_min",
    "row_number",
    "row_resized",
    "row_sqrt",
    "row_tile",
]

row_max, row_min = np.maximum, np.minimum
row_concat, row_tile = np.concatenate, np.tile


def row_sqrt(value: Any) -> Any:
    """The square root as torch computes it: its last bit is another than NumPy's on some processors."""
    return torch.from_numpy(np.array(value)).sqrt().numpy()[()]


def filled_row(dtype: str, value: float, *dims: int) -> Array:
    """A new array of one value."""
    return np.full(dims, value, dtype)


def row_number(dtype: str, value: float) -> Any:
    """One of NumPy's numbers."""
    return np.dtype(dtype).type(value)


def row_resized(image: Array, rows: int, columns: int, interpolation: str) -> Array:
    """An image `[..., height, width]` of another size; see `resize_image`, which computes it."""
    if min(image.strides) < 0:  # which torch does not have
        image = image.copy("K")
    resized: Array = resize_image(torch.from_numpy(image), rows, columns, interpolation).numpy()
    return resized
