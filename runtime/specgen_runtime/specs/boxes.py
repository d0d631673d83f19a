"""Boxes: the set of values that a spec allows, without shape, dtype or device rules of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch

from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["BinaryBox", "Box", "BoxList", "CategoricalBox", "ContinuousBox"]


class Box(ABC):
    """The domain of a leaf spec."""

    @abstractmethod
    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Box:
        """Return the box on another device or in another dtype (itself if it holds no tensor)."""

    @abstractmethod
    def clone(self) -> Box:
        """Return a copy that shares no storage."""


@dataclass(frozen=True, eq=False)
class ContinuousBox(Box):
    """All values between `low` and `high`, both included.

    Attributes:
        low: the smallest allowed values; shape and dtype of the spec.
        high: the largest allowed values; shape and dtype of the spec.
    """

    low: torch.Tensor
    high: torch.Tensor

    @property
    def device(self) -> torch.device:
        """Where the bounds are stored."""
        return self.low.device

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> ContinuousBox:
        """Return the box with its bounds on another device or in another dtype."""
        return ContinuousBox(self.low.to(dest), self.high.to(dest))

    def clone(self) -> ContinuousBox:
        """Return a copy that shares no storage."""
        return ContinuousBox(self.low.clone(), self.high.clone())

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield self.low
        yield self.high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContinuousBox):
            return NotImplemented
        return (
            self.low.dtype == other.low.dtype
            and self.device == other.device
            and torch.equal(self.low, other.low)
            and torch.equal(self.high, other.high)
        )

    __hash__ = None  # type: ignore[assignment]  # tensors inside: equal boxes have no equal hash


@dataclass(frozen=True)
class _Count(Box):
    n: int

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Self:
        """Return the box itself: it holds no tensor."""
        return self

    def clone(self) -> Self:
        """Return the box itself: it cannot change."""
        return self


@dataclass(frozen=True)
class CategoricalBox(_Count):
    """The integers `0 … n - 1`; `n == -1` means that their number is not known yet."""


@dataclass(frozen=True)
class BinaryBox(_Count):
    """Vectors of `n` zeros and ones.

    No spec has it as its space: that of `Binary` is `CategoricalBox(2)`, as each element is by itself. It is here
    for code that makes such boxes of its own.
    """


@dataclass(frozen=True)
class BoxList(Box):
    """One box per column, in order."""

    boxes: tuple[Box, ...]

    @staticmethod
    def from_nvec(nvec: torch.Tensor) -> BoxList:
        """Boxes of sizes `nvec`, split along its last dimension (and nested for the others).

        Args:
            nvec: int64 tensor of at least one dimension.
        """
        return BoxList(
            tuple(
                CategoricalBox(int(column)) if column.ndim == 0 else BoxList.from_nvec(column)
                for column in nvec.unbind(-1)
            )
        )

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> BoxList:
        """Return the list with every box moved."""
        return BoxList(tuple(box.to(dest) for box in self.boxes))

    def clone(self) -> BoxList:
        """Return the list with every box cloned."""
        return BoxList(tuple(box.clone() for box in self.boxes))

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)
