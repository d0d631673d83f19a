"""Running means and deviations of an entry, of which later values weigh more."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specgen_runtime.transforms.new_rows import NewRows, batch_count, batch_mean

__all__ = ["RunningMoments"]


class RunningMoments(NamedTuple):
    """What is known of one entry.

    Attributes:
        loc: the sum of its values, each with its weight: float64 of its shape, without the batch's dimensions where
            these are averaged.
        var: the sum of the squared values, with the same weights.
        number: how many values there were: int64, one for all rows or one for each.
    """

    loc: Tensor
    var: Tensor
    number: Tensor

    @classmethod
    def blank(cls, value: Tensor, batch: torch.Size, per_row: bool = True) -> RunningMoments:
        """Those of an entry like `value` before it is seen; each row of the batch has its own, or all have one."""
        rows = batch if per_row else torch.Size()
        shape = (*rows, *value.shape[len(batch) :])
        loc = torch.zeros(shape, dtype=torch.float64, device=value.device)
        return cls(loc, loc.clone(), torch.zeros(rows, dtype=torch.int64, device=value.device))

    def mean_and_deviation(self, decay: float, eps: float, dims: int | None = None) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation, at least `eps`, of what the weights sum up to.

        Args:
            decay: the weight of what was seen before the last value.
            eps: the least deviation.
            dims: how many dimensions data have to which they belong; those of time are between the rows' and the entry's.
        """
        count = self.number.reshape((*self.number.shape, *(1,) * (self.loc.ndim - self.number.ndim)))
        total = (
            1 - decay ** count.to(torch.float64) if decay < 1 else torch.ones_like(count, dtype=torch.float64)
        )
        total = torch.where(count > 0, total, 1.0)
        mean = self.loc / total
        deviation = (self.var / total - mean**2).clamp(min=0).sqrt().clamp(min=eps)
        if dims is None or dims <= mean.ndim:
            return mean, deviation
        rows, entry = mean.shape[: self.number.ndim], mean.shape[self.number.ndim :]
        shape = (*rows, *(1,) * (dims - mean.ndim), *entry)
        return mean.reshape(shape), deviation.reshape(shape)

    def with_rows(self, value: Tensor, new: NewRows, decay: float) -> RunningMoments:
        """What is known with the rows of `value` that are new, of each row for itself."""
        dims = len(new.size)
        count = self.number.expand(new.size)
        mask = torch.ones_like(count, dtype=torch.bool) if new.mask is None else new.mask
        count = count + mask
        share = 1 / count.clamp(min=1).to(torch.float64)
        share = torch.full_like(share, 1 - decay) if decay < 1 else share
        share, mask = (each.reshape((*new.size, *(1,) * (value.ndim - dims))) for each in (share, mask))
        value = torch.where(mask, value.to(torch.float64), self.loc)
        square = torch.where(mask, value**2, self.var)
        return RunningMoments(self.loc.lerp(value, share), self.var.lerp(square, share), count)

    def with_batch(self, value: Tensor, new: NewRows, decay: float) -> RunningMoments:
        """What is known with the rows of `value` that are new, which count as many values of one entry."""
        number = batch_count(new)
        count = self.number + number.to(torch.int64)
        share = 1 - decay**number if decay < 1 else number / count.clamp(min=1)
        value = value.to(torch.float64)
        learned = (batch_mean(each, new) for each in (value, value**2))
        loc, var = (
            torch.where(number > 0, old.lerp(seen, share), old)
            for old, seen in zip((self.loc, self.var), learned, strict=True)
        )
        return RunningMoments(loc, var, count)
