"""The dtypes that a role of a transform may have, where it names no single one."""

from __future__ import annotations

import torch

__all__ = ["ANY_DTYPES", "FLOAT_DTYPES", "NUMBER_DTYPES"]

FLOAT_DTYPES = (torch.float32, torch.float64)
"""`float`."""

NUMBER_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, *FLOAT_DTYPES)
"""`number`."""

ANY_DTYPES = (torch.bool, *NUMBER_DTYPES)
"""`any`."""
