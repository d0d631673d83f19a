"""What steps computed by NumPy call, on arrays and on the numbers that stand for what is stored as `(1,)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from specgen_runtime.typing import Array

__all__ = ["filled_row", "row_max", "row_min", "row_number", "row_sqrt"]

row_sqrt, row_max, row_min = np.sqrt, np.maximum, np.minimum


def filled_row(dtype: str, value: float, *dims: int) -> Array:
    """A new array of one value."""
    return np.full(dims, value, dtype)


def row_number(dtype: str, value: float) -> Any:
    """One of NumPy's numbers."""
    return np.dtype(dtype).type(value)
