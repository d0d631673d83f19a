"""`SegmentTree`: numbers of which some change, and their sum, least or largest; draws in proportion to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

__all__ = ["Reduction", "SegmentTree"]

Reduction: TypeAlias = Literal["sum", "min", "max"]

_BLOCK = 32
"""How many numbers have one above them. Wide blocks need few levels, and each level costs a few operations on tensors."""

_TOP = 4096
"""The most numbers that have none above them: they are searched directly."""

_REDUCE: dict[Reduction, Callable[[Tensor], Tensor]] = {
    "sum": lambda rows: rows.sum(-1),
    "min": lambda rows: rows.amin(-1),
    "max": lambda rows: rows.amax(-1),
}
_NEUTRAL: dict[Reduction, float] = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}


class SegmentTree:
    """Numbers in levels: those of the first level, for each block of a level one number that sums it up in the next.

    All operations take a fixed number of steps for each of a handful of levels, for any number of elements together.

    Args:
        capacity: how many numbers.
        reduction: what sums up a block.
        dtype: of the numbers.
        device: where they are.
    """

    def __init__(
        self, capacity: int, reduction: Reduction, dtype: torch.dtype, device: torch.device | None
    ) -> None:
        self.capacity = capacity
        self.reduction = reduction
        self.levels: list[Tensor] = []
        size = capacity
        while True:
            size = -(-size // _BLOCK)
            level = torch.full((size * _BLOCK,), _NEUTRAL[reduction], dtype=dtype, device=device)
            self.levels.append(level)
            if len(level) <= _TOP:
                break

    def __getitem__(self, index: Tensor) -> Tensor:
        """The numbers at an index."""
        return self.levels[0][index]

    def update(self, index: Tensor, values: Tensor) -> None:
        """Change the numbers at an index `[n]` to `values`, `[n]`; those that come twice must be the same."""
        self.levels[0][index] = values
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            index = index // _BLOCK
            above[index] = _REDUCE[self.reduction](below.view(-1, _BLOCK).index_select(0, index))

    def fill(self, values: Tensor) -> None:
        """Change all numbers to `values`, `[capacity]`."""
        self.levels[0][: self.capacity] = values
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            blocks = _REDUCE[self.reduction](below.view(-1, _BLOCK))
            above[: len(blocks)] = blocks

    def total(self) -> Tensor:
        """The sum, the least, or the largest of all numbers."""
        return _REDUCE[self.reduction](self.levels[-1])

    def draw(self, uniform: Tensor) -> Tensor:
        """Draw elements in proportion to their numbers; only where they are summed up, and none is negative.

        Args:
            uniform: `[n]` numbers in [0, 1).

        Returns:
            The element at which the sum of all before it, itself included, first exceeds that part of the total, int64 `[n]`.
            It is none whose number is 0.
        """
        top = self.levels[-1].cumsum(0)
        mass = torch.minimum(uniform * top[-1], _below(top[-1]))
        node = torch.searchsorted(top, mass, right=True)
        mass = mass - top[node] + self.levels[-1][node]
        for level in reversed(self.levels[:-1]):
            rows = level.view(-1, _BLOCK).index_select(0, node)
            sums = rows.cumsum(-1)
            # What is left may have been rounded to less than nothing, or beyond this block.
            mass = torch.minimum(mass.clamp_min(0), _below(sums[:, -1]))
            place = (sums <= mass.unsqueeze(-1)).sum(-1, keepdim=True)
            mass = mass - (sums.gather(1, place) - rows.gather(1, place)).squeeze(1)
            node = node * _BLOCK + place.squeeze(1)
        return node


def _below(values: Tensor) -> Tensor:
    """The next smaller numbers."""
    return torch.nextafter(values, torch.zeros((), dtype=values.dtype, device=values.device))
