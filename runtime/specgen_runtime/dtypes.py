"""Names of dtypes, as messages and saved files have them."""

from __future__ import annotations

import torch

__all__ = ["dtype_name"]


def dtype_name(value: torch.dtype | str) -> str:
    """The name of a dtype, such as ``"float32"``; text as it is."""
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value
