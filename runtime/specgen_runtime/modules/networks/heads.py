"""Several heads behind one last layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OutputHeads(nn.Module):
    """Cuts what a network gives into pieces, each for a head of its own, such as the distributions of several actions.

    Args:
        *heads: how many numbers a head reads, and the head: a module from `(*batch, size)` to a tensor or several.

    Raises:
        ValueError: a head reads less than one number.
    """

    def __init__(self, *heads: tuple[int, nn.Module]) -> None:
        super().__init__()
        self.sizes = [size for size, _ in heads]
        if not heads or min(self.sizes) < 1:
            raise ValueError(
                f"OutputHeads needs heads that read one number or more, got the sizes {self.sizes}"
            )
        self.heads = nn.ModuleList(head for _, head in heads)

    def forward(self, values: Tensor) -> tuple[Tensor, ...]:
        """What the heads give, one after the other.

        Args:
            values: shape `(*batch, sum of the sizes)`.
        """
        outputs: list[Tensor] = []
        for head, piece in zip(self.heads, torch.split(values, self.sizes, -1), strict=True):
            given = head(piece)
            outputs += [given] if isinstance(given, Tensor) else given
        return tuple(outputs)
