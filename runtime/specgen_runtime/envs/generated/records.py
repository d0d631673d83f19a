"""Operations on the records of generated environments: from Next to Root, merging rows, stacking steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.typing import Array

__all__ = ["RecordRows", "carried", "joined_firsts", "merged", "roots_of", "stacked"]

_LARGE = 2**15
"""From so many bytes on, a field is copied at each step."""

_FEW, _FIRST_BYTES = 16, 2**22
"""Where nobody knows how many steps there will be, there is memory for so many at first, or so much of it."""


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


def joined_firsts(first: Any, others: Any, dim: int) -> Any:
    """One record of the Root records that do not follow from the step before.

    Args:
        first: the one that a rollout begins with. It may have been read from a tensordict, where a field that transforms
            have overwritten is what they made of it: of another shape, perhaps, or None where they show nothing in its
            place. Nobody looks at such a field of it, and it is filled with the next one's.
        others: the records of later episodes, stacked at `dim`; None if there are none.
        dim: the new dimension.
    """
    if others is None:
        return type(first)._make([None if field is None else field.unsqueeze(dim) for field in first])
    fields = []
    for mine, theirs in zip(first, others, strict=True):
        begin = theirs.narrow(dim, 0, 1)
        mine = begin if mine is None else mine.unsqueeze(dim)
        fields.append(torch.cat((mine if mine.shape == begin.shape else begin, theirs), dim))
    return type(first)._make(fields)


def roots_of(firsts: Any, starts: Sequence[int], nexts: Any, dim: int) -> Any:
    """The Root records of all steps: what the step before carries on, or those of new episodes.

    Args:
        firsts: `joined_firsts`.
        starts: the steps that they are of; the first is 0.
        nexts: the Next records of all steps, stacked at `dim`.
        dim: of time.
    """
    at = np.array(starts)
    fields = []
    for first, following in zip(firsts, carried(firsts, nexts), strict=True):
        if first is None or not _alike_beyond(dim, first, following):
            first = following.narrow(dim, 0, len(starts))
        fields.append(_shifted(first, at, following, dim))
    return type(firsts)._make(fields)


def _alike_beyond(dim: int, first: Tensor, following: Tensor) -> bool:
    return first.dtype is following.dtype and first.shape[dim + 1 :] == following.shape[dim + 1 :]


def _shifted(first: Tensor, starts: Array, following: Tensor, dim: int) -> Tensor:
    """`following` one step later, with `first` at the starts."""
    try:
        firsts, source = first.numpy(), following.numpy()
    except (RuntimeError, TypeError):  # with gradients, on a device, of a dtype that NumPy does not have
        field, count = torch.empty_like(following), following.shape[dim] - 1
        field.narrow(dim, 1, count).copy_(following.narrow(dim, 0, count))
        return field.index_copy_(dim, torch.from_numpy(starts).to(field.device), first)
    array = np.empty_like(source)
    if dim == 0:
        array[1:] = source[:-1]
        array[starts] = firsts
    else:
        before: tuple[Any, ...] = (slice(None),) * dim
        array[*before, 1:] = source[*before, :-1]
        array[*before, starts] = firsts
    return torch.from_numpy(array)


class RecordRows:
    """The records of many steps: small fields are stacked in the end, large ones copied at each step.

    What has just been computed is in the processor's cache, and once it is copied, its memory serves the next step.

    Args:
        batch_ndim: how many dimensions the batch has; fields of batches are stacked in the end, whatever their size.
        steps: how many there will be; None if nobody knows.
    """

    def __init__(self, batch_ndim: int, steps: int | None) -> None:
        self._dim, self._steps = batch_ndim, steps
        self._records: list[Any] = []
        self._large: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Any) -> Any:
        """Keep the record of the next step.

        Returns:
            The record, with its large fields where they are kept.

        Raises:
            RuntimeError: a large field has another shape or dtype than at the first step.
        """
        records = self._records
        if not records and not self._dim:
            self._large = _rooms(record, self._steps)
        if not self._large:
            records.append(record)
            return record
        fields, step = list(record), len(records)
        for place, rows in self._large.items():
            value = fields[place]
            if value.shape != rows.shape[1:] or value.dtype is not rows.dtype:
                raise RuntimeError(
                    f"step {step} and step 0 of a rollout differ in {record._fields[place]}: {value.dtype}"
                    f" {list(value.shape)} and {rows.dtype} {list(rows.shape[1:])}"
                )
            if step == len(rows):
                rows = self._large[place] = _resized(rows, 2 * step)
            fields[place] = rows[step].copy_(value)
        kept = type(record)._make(fields)
        # What is kept elsewhere is not held twice.
        records.append(kept._replace(**{record._fields[place]: None for place in self._large}))
        return kept

    def stacked(self) -> Any:
        """One record of all steps, `(*batch, T, ...)`."""
        count, fields = len(self._records), []
        for place, column in enumerate(zip(*self._records, strict=True)):
            rows = self._large.get(place)
            if rows is None:
                fields.append(torch.stack(column, self._dim))
            else:
                fields.append(rows if len(rows) == count else _resized(rows, count))
        return type(self._records[0])._make(fields)


def _rooms(record: Any, steps: int | None) -> dict[int, Tensor]:
    """Memory for the large fields of so many records, by their places.

    There is none where gradients are wanted: what networks were given has to stay, and its memory to be written no more.
    """
    if any(value.requires_grad for value in record):
        return {}
    return {
        place: _empty(value, (steps or max(_FEW, _FIRST_BYTES // value.nbytes), *value.shape))
        for place, value in enumerate(record)
        if value.nbytes >= _LARGE
    }


def _empty(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Memory for values like those of a tensor. NumPy asks for large pages where there is much, torch does not."""
    size = math.prod(shape) * like.itemsize
    if size < _FIRST_BYTES or like.device.type != "cpu":
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(size, np.uint8)).view(like.dtype).view(shape)


def _resized(rows: Tensor, count: int) -> Tensor:
    """Rows in memory for more or fewer of them."""
    other = _empty(rows, (count, *rows.shape[1:]))
    kept = min(count, len(rows))
    other[:kept] = rows[:kept]
    return other
