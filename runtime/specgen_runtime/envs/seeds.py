"""Seeds as users give them, read as integers that generators take."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["as_seed"]


def as_seed(seed: Any) -> int | None:
    """A seed that generators take: Python's integers, and what counts as one, such as NumPy's. None stays None.

    Raises:
        TypeError: not an integer.
        ValueError: less than -2**63, or 2**64 or more.
    """
    if seed is None:
        return None
    try:
        whole = operator.index(seed)
    except TypeError:
        raise TypeError(f"a seed must be an int, found {type(seed).__name__}") from None
    if not -(2**63) <= whole < 2**64:
        raise ValueError(f"a seed must be at least -2**63 and less than 2**64, found {whole}")
    return whole
