"""What a transform keeps of the data that pass through it, as its declaration says it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.typing import NestedKey

__all__ = ["BufferSpec", "buffer_name"]


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """A statistic that a transform keeps.

    Attributes:
        name: its name.
        each: the field of a record that names the keys of which each has one; None for one in all.
        dtype: its dtype; None for that of the entry.
        shaped: whether it has the shape of a row of the entry.
        init: what it begins with; None for nothing.
        optional: whether it may have no value.
        like: whether it has the dtype and shape of what the class computes of the entries.
    """

    name: str
    each: str | None
    dtype: torch.dtype | None
    shaped: bool
    init: Tensor | float | None
    optional: bool = False
    like: bool = False


def buffer_name(spec: BufferSpec, row: tuple[NestedKey, ...]) -> str:
    """The name of a statistic in state dicts."""
    if spec.each is None:
        return spec.name
    return "|".join((spec.name, *as_tuple(getattr(row, spec.each))))
