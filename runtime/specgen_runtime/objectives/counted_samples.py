"""`CountedSamples`: reduces the terms and metrics of a loss over the samples of a batch that count."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specgen_runtime.objectives.reduction import Reduction, reduce

__all__ = ["CountedSamples"]


class CountedSamples:
    """Which samples of a batch count, and how much each does; read from the data once for all that is reduced.

    Args:
        reduction: of terms.
        mask: bool, ``[*batch]``: which samples count; None: all.
        weights: how much each does; None: all alike. Metrics are not weighted.
    """

    __slots__ = ("_mask", "_reduction", "_weights")

    def __init__(self, reduction: Reduction, mask: Tensor | None, weights: Tensor | None) -> None:
        self._reduction: Reduction = reduction
        self._mask = mask
        self._weights = weights

    def reduced(
        self, loss: Tensor, mask: Tensor | None = None, *, first: Sequence[int] | None = ()
    ) -> Tensor:
        """A term of one value per sample, reduced.

        Args:
            loss: ``[*batch]``.
            mask: which samples count for it, where it has a mask of its own.
            first: dimensions over which means are taken before; with None it is not reduced at all.
        """
        return reduce(
            loss,
            "none" if first is None else self._reduction,
            first=first or (),
            mask=self._mask if mask is None else mask,
            weights=self._weights,
        )

    def mean(self, metric: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mean of one value per sample, or the fraction that is true."""
        mask = self._mask if mask is None else mask
        values = metric if metric.is_floating_point() else metric.to(torch.get_default_dtype())
        return values.mean() if mask is None else reduce(values, "mean", mask=mask)
