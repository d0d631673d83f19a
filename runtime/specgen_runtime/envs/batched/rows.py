"""Rows of a batch: taking a tensordict apart along its first dimension, and putting rows together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from specgen_runtime.envs.packing import entries_of, fast_td
from specgen_runtime.specs.stacks.values import join

__all__ = ["LastOutputs", "Memo", "flat_leaves", "moved", "split_rows", "stack_rows"]

Memo = dict[tuple[int, ...], Any]
"""Batches whose rows are known, by the identities of the rows: what nobody replaced need not be stacked again.

Whoever holds a memo must hold the rows too, or their identities may belong to others.
"""


class LastOutputs:
    """What the environments last gave. An object of its own: setting attributes of modules takes microseconds.

    Attributes:
        rows: one tensordict for each environment; None if that is not known, or they were asked as a batch.
        batch: one tensordict for all of them; None if that is not known, or they were asked row by row.
    """

    def __init__(self) -> None:
        self.rows: Sequence[Any] | None = None
        self.batch: Any = None

    def take(self, rows: Sequence[Any] | None = None, batch: Any = None) -> None:
        """Take note of what they gave, row by row or as a batch, or forget it."""
        self.rows, self.batch = rows, batch

    def row(self, place: int) -> Any:
        """What one environment gave, or None."""
        if self.batch is not None:
            return self.batch[place]
        return None if self.rows is None else self.rows[place]


def split_rows(tensordict: TensorDictBase, memo: Memo | None = None) -> list[Any]:
    """The rows of a tensordict along its first dimension, as new containers that share its tensors.

    Args:
        tensordict: of at least one batch dimension.
        memo: told which rows belong to which tensor.
    """
    if type(tensordict) is not TensorDict:
        return [row.copy() if isinstance(row, TensorDictBase) else row for row in tensordict.unbind(0)]
    size = tensordict.batch_size
    rows: list[dict[str, Any]] = [{} for _ in range(size[0])]
    for name, value in entries_of(tensordict).items():
        values: Sequence[Any]
        if isinstance(value, torch.Tensor) or not isinstance(value, TensorDictBase):
            values = value.unbind(0)
            if memo is not None:
                memo[tuple(map(id, values))] = value
        else:
            values = split_rows(value, memo)
        for row, item in zip(rows, values, strict=True):
            row[name] = item
    inner, device = size[1:], tensordict.device
    return [fast_td(row, inner, device) for row in rows]


def stack_rows(rows: Sequence[Any], memo: Memo | None = None) -> Any:
    """One tensordict of rows, stacked along a new first dimension; lazily, where rows differ in keys or sizes.

    Args:
        rows: tensordicts of one batch size.
        memo: batches whose rows are known already, to which those of this one are added.
    """
    first = rows[0]
    if any(type(row) is not TensorDict for row in rows):
        return join(rows, 0)
    columns = [entries_of(row) for row in rows]
    names = columns[0].keys()
    if any(column.keys() != names for column in columns):
        return LazyStackedTensorDict.maybe_dense_stack(list(rows), 0)
    entries: dict[str, Any] = {}
    for name in names:
        values = [column[name] for column in columns]
        if type(values[0]) is TensorDict:
            entries[name] = stack_rows(values, memo)
            continue
        known = None
        if memo is not None:
            identity = tuple(map(id, values))
            known = memo.get(identity)
        if known is None:
            if not isinstance(values[0], torch.Tensor):
                known = join(values, 0)
            elif _alike(values):
                known = torch.stack(values)
            else:
                return LazyStackedTensorDict.maybe_dense_stack(list(rows), 0)
            if memo is not None:
                memo[identity] = known
        entries[name] = known
    return fast_td(entries, torch.Size((len(rows), *first.batch_size)), first.device)


def _alike(values: Sequence[Any]) -> bool:
    """Whether tensors can be rows of one; `torch.stack` itself would promote dtypes."""
    first = values[0]
    if first.is_nested:
        return False
    dtype, shape = first.dtype, first.shape
    for value in values[1:]:
        if (
            not isinstance(value, torch.Tensor)
            or value.dtype is not dtype
            or value.is_nested
            or value.shape != shape
        ):
            return False
    return True


def moved(tensordict: Any, device: torch.device | None, *, non_blocking: bool) -> Any:
    """A tensordict on another device; None takes the device away."""
    if tensordict.device == device:
        return tensordict
    if device is None:
        return tensordict.clear_device_()
    result = tensordict.to(device, non_blocking=non_blocking)
    if non_blocking and device.type == "cpu" and torch.cuda.is_available():
        torch.cuda.synchronize()  # what is copied to the CPU without waiting may not be there yet
    return result


def flat_leaves(tensordict: TensorDictBase) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves of a tensordict with their paths; what is not a plain tensordict counts as a leaf."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in entries_of(tensordict).items():
        if type(value) is TensorDict:
            found.extend(((name, *path), leaf) for path, leaf in flat_leaves(value))
        else:
            found.append(((name,), value))
    return found
