"""The rows of a batch that are new at a moment, and statistics over them: what `update` of a transform learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import leaf_name

T = TypeVar("T")

__all__ = [
    "NewRows",
    "OneRow",
    "batch_count",
    "batch_mean",
    "batch_rank",
    "batch_sum",
    "reset_mask",
    "reset_mask_above",
]


@dataclass(slots=True)
class NewRows:
    """The rows of a batch that took a step, or are being reset.

    Attributes:
        size: of the batch.
        mask: bool ``[*size]``; None: all rows are new.
        device: of the data.
    """

    size: torch.Size
    mask: Tensor | None = None
    device: torch.device | None = None
    _number: Tensor | None = field(default=None, init=False, repr=False, compare=False)
    _known: tuple[Any, Any] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, moment: TensorDictBase, mask: Tensor | None) -> NewRows:
        """The rows of a moment that a mask selects, which may have more dimensions: a row is new where any part is."""
        size = moment.batch_size
        return cls(size, None if mask is None else mask.reshape(*size, -1).any(-1), moment.device)

    def once(self, function: Callable[..., T], *params: Any) -> T:
        """`function(*params, self)`, which reads how many rows are new, and no data.

        Where all are, it is called when it is asked for with other parameters only.
        """
        if self.mask is not None:
            return function(*params, self)
        if self._known is None or self._known[0] != (function, params):
            self._known = (function, params), function(*params, self)
        known: T = self._known[1]
        return known

    @property
    def count(self) -> int | Tensor:
        """How many rows are new."""
        return self.size.numel() if self.mask is None else self.mask.sum()


class OneRow:
    """The one row of an environment without a batch, which is new: `NewRows` for updates by NumPy."""

    def __init__(self) -> None:
        self._rows = NewRows(torch.Size())
        self._known: tuple[Any, Any] | None = None

    def once(self, function: Callable[..., T], *params: Any) -> T:
        """`NewRows.once`, with NumPy's numbers in place of tensors."""
        if self._known is None or self._known[0] != (function, params):
            made: Any = function(*params, self._rows)
            several = isinstance(made, tuple)
            numbers = tuple([value.numpy()[()] for value in (made if several else (made,))])
            self._known = (function, params), numbers if several else numbers[0]
        known: T = self._known[1]
        return known


def reset_mask(tensordict: TensorDictBase) -> Tensor | None:
    """The rows that some ``_reset`` mask selects, bool of the tensordict's batch size; None if there is no mask."""
    size = tensordict.batch_size
    masks = [value for key, value in tensordict.items(True, True) if leaf_name(key) == "_reset"]
    if not masks:
        return None
    return torch.stack([mask.reshape(*size, -1).any(-1) for mask in masks]).any(0)


def reset_mask_above(tensordict: TensorDictBase, path: Sequence[str]) -> Tensor | None:
    """The root-most ``_reset`` mask on the path of a key; the rows of all masks where there is none."""
    for depth in range(len(path)):
        mask: Tensor | None = tensordict.get((*path[:depth], "_reset"), None)
        if mask is not None:
            return mask
    return reset_mask(tensordict)


def batch_count(new_rows: NewRows) -> Tensor:
    """How many rows are new: float64 []."""
    if new_rows._number is None:
        count = new_rows.count
        new_rows._number = (
            count.to(torch.float64)
            if isinstance(count, Tensor)
            else torch.tensor(float(count), dtype=torch.float64, device=new_rows.device)
        )
    return new_rows._number


def batch_rank(x: Tensor, new_rows: NewRows) -> Tensor:
    """The position of each row among those that are new, from 0, in the order of the batch.

    Args:
        x: any dtype ``[*batch, *dims]``, read for its shape only.
        new_rows: the rows that count.

    Returns:
        int64 ``[*batch, *dims]``, the same for all elements of a row. Rows that are not new have the position of the new
        row before them, or 0.
    """
    if new_rows.mask is None:
        rank = torch.arange(new_rows.size.numel(), device=x.device)
    else:
        rank = (new_rows.mask.reshape(-1).cumsum(0) - 1).clamp(min=0)
    ndim = len(new_rows.size)
    return rank.reshape((*new_rows.size, *(1,) * (x.ndim - ndim))).expand(x.shape).clone()


def batch_sum(x: Tensor, new_rows: NewRows) -> Tensor:
    """The sum of `x` over the rows that are new.

    Args:
        x: numbers ``[*batch, *dims]``. What rows that are not new hold leaves no trace, NaN neither.
        new_rows: the rows that count.

    Returns:
        float64 ``[*dims]``.
    """
    ndim, mask = len(new_rows.size), new_rows.mask
    x = x if x.dtype is torch.float64 else x.to(torch.float64)
    if mask is not None:
        x = torch.where(mask.reshape((*new_rows.size, *(1,) * (x.ndim - ndim))), x, 0.0)
    return x.reshape(-1, *x.shape[ndim:]).sum(0) if ndim else x


def batch_mean(x: Tensor, new_rows: NewRows) -> Tensor:
    """The mean of `x` over the rows that are new; NaN where none is.

    Args:
        x: as of `batch_sum`.
        new_rows: the rows that count.

    Returns:
        float64 ``[*dims]``.
    """
    alone = new_rows.mask is None and not new_rows.size  # one environment without a batch
    return x.to(torch.float64) if alone else batch_sum(x, new_rows) / batch_count(new_rows)
