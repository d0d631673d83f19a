"""Rows of different lengths: values one behind the other with offsets, lists of rows, padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, lazy_stack
from torch import Tensor

from specgen_runtime.typing import NestedKey

__all__ = ["Ragged", "leaves", "rows_at", "sizes_of", "stacked_rows", "with_padded_rows"]


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths.

    Attributes:
        values: the rows one behind the other, `[N, ...]`.
        offsets: where each row begins, and `N`: int64 `[rows + 1]`.
    """

    values: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, rows: Sequence[Tensor], dtype: torch.dtype | None = None) -> Ragged:
        """Make it of a list of rows, each `[length, ...]`; of none, with `dtype`."""
        lengths = torch.tensor([0, *(len(row) for row in rows)])
        return cls(torch.cat(list(rows)) if rows else torch.zeros(0, dtype=dtype), lengths.cumsum(0))

    @classmethod
    def of_padded(cls, values: Tensor, mask: Tensor) -> Ragged:
        """Make it of a padded tensor `[rows, width, ...]`, of the places where `mask`, bool `[rows, width]`, is set."""
        lengths = mask.sum(-1)
        return cls(values[mask], torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        """The length of each row: int64 `[rows]`."""
        return self.offsets.diff()

    def rows(self) -> list[Tensor]:
        """The rows, each `[length, ...]`; views of `values`."""
        return list(torch.split(self.values, self.lengths.tolist()))

    def with_values(self, values: Tensor) -> Ragged:
        """The same rows of other values, `[N, ...]`."""
        return Ragged(values, self.offsets)

    @property
    def width(self) -> int:
        """The length of the longest row."""
        return int(self.lengths.max()) if len(self) else 0

    def padded(self, fill: float | bool = 0, side: str = "right", width: int | None = None) -> Tensor:
        """The rows as one tensor `[rows, width, ...]`; see `mask`. Gradients go through."""
        mask = self.mask(side, width)
        return self.values.new_full((*mask.shape, *self.values.shape[1:]), fill).index_put(
            (mask,), self.values
        )

    def mask(self, side: str = "right", width: int | None = None) -> Tensor:
        """Where a padded tensor has values: bool `[rows, width]`.

        Args:
            side: ``"left"`` or ``"right"``, where padding is.
            width: of the padded tensor; None for the longest row's.

        Raises:
            ValueError: a row is longer than `width`, or `side` is something else.
        """
        if side not in ("left", "right"):
            raise ValueError(f"padding_side is 'left' or 'right', got {side!r}")
        longest, device = self.width, self.values.device
        width = longest if width is None else width
        if longest > width:
            row = int(self.lengths.argmax())
            raise ValueError(
                f"row {row} has {longest} tokens, which is more than the width of {width}: raise it (pad_to), or cut "
                "sequences (max_length)"
            )
        lengths, columns = self.lengths.to(device)[:, None], torch.arange(width, device=device)
        return columns >= width - lengths if side == "left" else columns < lengths


def rows_at(data: TensorDictBase, key: NestedKey) -> Tensor | list[Tensor] | None:
    """The entry of a tensordict: a tensor, or a list of rows where they are of different lengths; None without it.

    Of several batch dimensions the last varies fastest in the list.
    """
    value: Any = data.get(key, None, as_list=True)
    if value is None or (isinstance(value, Tensor) and not value.is_nested):
        return value
    rows = leaves(list(value.unbind()) if isinstance(value, Tensor) else value)
    if isinstance(value, list) and data.ndim > 1 and len(rows) != data.numel():
        # stacked along a later dimension, as the steps of a rollout are: each has rows of several
        flat = rows_at(data.select(key).reshape(-1), key)
        return flat.reshape(*data.batch_size, *flat.shape[1:]) if isinstance(flat, Tensor) else flat
    if rows and len({row.shape for row in rows}) == 1:  # rows of a lazy stack that have one length
        return torch.stack(rows).reshape(*data.batch_size, *rows[0].shape)
    return rows


def sizes_of(value: Tensor | Sequence[Tensor]) -> list[int]:
    """The shape of a tensor, or the lengths of rows, as messages tell them."""
    return list(value.shape) if isinstance(value, Tensor) else [len(row) for row in value]


def with_padded_rows(
    data: TensorDictBase, keys: Sequence[NestedKey], mask_key: NestedKey | None = None
) -> TensorDictBase:
    """The data with one tensor in the place of each entry whose rows are of different lengths.

    Rows are padded on the left: numbers with 0, masks with False.

    Args:
        data: not changed.
        keys: of the entries. Those whose rows have other lengths than the first one's stay as they are.
        mask_key: where a mask of what is no padding is written, bool `[*batch, width]`, unless there is one.

    Returns:
        `data` itself if there are no such entries; otherwise a copy.
    """
    found = ((key, rows_at(data, key)) for key in keys)
    ragged = {key: Ragged.of(rows) for key, rows in found if isinstance(rows, list) and rows}
    if not ragged:
        return data
    first = next(iter(ragged.values()))
    padded: TensorDictBase = data.copy()
    for key, rows in ragged.items():
        if torch.equal(rows.offsets, first.offsets):
            value = rows.padded(0, "left")
            padded.set(key, value.reshape(*data.batch_size, *value.shape[1:]))
    if mask_key is not None and rows_at(data, mask_key) is None:
        mask = first.mask("left")
        padded.set(mask_key, mask.reshape(*data.batch_size, -1))
    return padded


def leaves(nested: Any) -> list[Any]:
    """The leaves of nested lists."""
    if not isinstance(nested, list | tuple):
        return [nested]
    return [leaf for one in nested for leaf in leaves(one)]


def stacked_rows(**columns: Sequence[Tensor]) -> LazyStackedTensorDict:
    """A lazy stack of rows, whose entries may be of different lengths: `get(key, as_list=True)` returns the rows."""
    rows = [TensorDict(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    stack: LazyStackedTensorDict = lazy_stack(rows)
    return stack
