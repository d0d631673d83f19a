"""Operations on the records of generated environments: from Next to Root, merging rows, stacking steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["carried", "merged", "stacked"]


def carried(root: Any, next_: Any) -> Any:
    """The Root record that a Next record leaves for the next step: its fields of the same names.

    Args:
        root: any Root record, for its type.
        next_: holds every field of Root; it is cheapest if they come first, in the same order.
    """
    cls = type(root)
    names = cls._fields
    if type(next_)._fields[: len(names)] == names:
        return cls._make(next_[: len(names)])
    return cls._make([getattr(next_, name) for name in names])


def merged(mask: Tensor, fresh: Any, old: Any, batch_ndim: int) -> Any:
    """Take `fresh` in the rows of the mask and `old` elsewhere, field by field.

    Args:
        mask: bool, `(*batch, 1)`.
        fresh: a record of tensors that start with the batch dimensions.
        old: another of the same type and shapes.
        batch_ndim: how many batch dimensions there are.
    """
    rows = {0: mask.squeeze(-1), 1: mask}
    fields = []
    for new, kept in zip(fresh, old, strict=True):
        rank = new.ndim - batch_ndim
        if rank not in rows:
            rows[rank] = mask.reshape(*mask.shape, *(1,) * (rank - 1))
        fields.append(torch.where(rows[rank], new, kept))
    return type(fresh)._make(fields)


def stacked(records: Sequence[Any], dim: int) -> Any:
    """One record whose fields have a new time dimension at `dim`."""
    return type(records[0])._make([torch.stack(column, dim) for column in zip(*records, strict=True)])
