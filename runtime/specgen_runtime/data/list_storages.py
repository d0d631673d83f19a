"""Storages that keep each row as it is: text, conversations, rows of different lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, is_tensor_collection, lazy_stack
from torch import Tensor

from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.data.rows import RowData
from specgen_runtime.data.storage import Storage
from specgen_runtime.envs.keys import show_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["LazyStackStorage", "ListStorage"]


class ListStorage(Storage):
    """Keeps rows in a list: tensordicts, tensorclasses, tensors, text, or any other objects.

    Rows may differ in their keys, shapes and dtypes. Tensors are copied when they are written and when they are read, so that
    a sample never changes what is kept; objects are kept as they are. Samples of tensordicts and tensors are stacked, lazily
    where tensordicts differ; tensors that differ, and other objects, stay a list.

    Args:
        max_size: how many rows; None: as many as fit into memory.
        device: where tensors are kept and sampled; None: where they are when they come.
    """

    def __init__(self, max_size: int | None = None, *, device: DEVICE_TYPING | None = None) -> None:
        super().__init__(torch.iinfo(torch.int64).max if max_size is None else max_size)
        self.device = None if device is None else torch.device(device)
        self._kept: list[Any] = []

    def as_batch(self, data: Any) -> RowData:
        """Data whose rows can be counted: a list of tensordicts as a lazy stack, other lists as they are.

        Raises:
            TypeError: it is no list, tuple, tensordict, tensorclass or tensor.
        """
        if isinstance(data, tuple):
            data = list(data)
        if isinstance(data, list) and data and all(map(is_tensor_collection, data)):
            return lazy_stack(data) if len({row.ndim for row in data}) == 1 else data
        if isinstance(data, list | Tensor) or is_tensor_collection(data):
            return data
        raise TypeError(
            f"a {type(self).__name__} takes lists of rows, tensordicts, tensorclasses or tensors; got {type(data).__name__}"
        )

    def collate(self, rows: Any) -> Any:
        """Rows as `get` gives them, stacked where they can be."""
        if not isinstance(rows, list):
            return rows
        if all(map(is_tensor_collection, rows)) and len({row.ndim for row in rows}) == 1:
            return LazyStackedTensorDict.maybe_dense_stack(rows)
        if (
            all(isinstance(row, Tensor) for row in rows)
            and len({(row.shape, row.dtype) for row in rows}) == 1
        ):
            return torch.stack(rows)
        return rows

    def __len__(self) -> int:
        return len(self._kept)

    def rows_of(self, data: RowData) -> int:
        """How many rows there is space for: `max_size`."""
        return self.max_size

    def set(self, cursor: Any, data: RowData, *, set_cursor: bool = True) -> None:
        """Write rows; see `Storage.set`.

        Raises:
            IndexError: there are no rows at the cursor, or it leaves rows out.
            ValueError: as many rows were not given.
        """
        places = self._places(cursor, self.max_size if set_cursor else len(self))
        rows = [data] if _is_number(cursor) else list(data)
        if len(rows) != len(places):
            raise ValueError(f"{len(rows)} rows were given for {len(places)} places of the replay buffer")
        new = {place for place in places if place >= len(self)}
        if new and max(new) != len(self) + len(new) - 1:
            raise IndexError(
                f"row {max(new)} of a storage that has {len(self)} rows: there are none before it"
            )
        copies = [self._packed(self._checked(row)) for row in rows]
        self._kept.extend([None] * len(new))
        for place, row in zip(places, copies, strict=True):
            self._kept[place] = row
        if set_cursor and places:
            self._last_cursor = places[-1]
        self._changed(cursor)

    def set_entry(self, key: NestedKey, value: Any) -> None:
        """Write over an entry of all rows; see `Storage.set_entry`."""
        if len(value) != len(self):
            raise ValueError(f"{len(value)} values were given for {len(self)} rows of the replay buffer")
        for place, part in enumerate(value):
            self._kept[place] = self._packed(self._read(place, copied=False).set(key, part))
        self._changed(None)

    def get(self, index: Any) -> Any:
        """The row at a number, or a list of those at a slice or a vector of numbers.

        Raises:
            IndexError: nothing was written there.
        """
        if isinstance(index, tuple) and len(index) == 1:
            index = index[0]
        if not self._kept:
            raise IndexError("nothing was written into this storage yet")
        rows = [self._read(place) for place in self._places(index, len(self))]
        return rows[0] if _is_number(index) else rows

    def entries(self, keys: Iterable[NestedKey], index: Any) -> dict[NestedKey, Tensor]:
        """Some entries of the rows at an index, where each of them has it; see `Storage.entries`.

        Raises:
            RuntimeError: rows have one in different shapes.
        """
        rows = [self._read(place, copied=False) for place in self._places(index, len(self))]
        if not all(map(is_tensor_collection, rows)):
            return {}
        found = {key: [row.get(key, None) for row in rows] for key in keys}
        return {
            key: _stacked(key, values)
            for key, values in found.items()
            if all(isinstance(value, Tensor) for value in values)
        }

    def _checked(self, row: Any) -> Any:
        """A row that may be kept."""
        return row

    def _packed(self, row: Any) -> Any:
        """A row as it is kept."""
        copy = _copy(row)
        return copy if self.device is None or not hasattr(copy, "to") else copy.to(self.device)

    def _read(self, place: int, *, copied: bool = True) -> Any:
        """A row that is kept, as a copy of its own or as it stands here."""
        return _copy(self._kept[place]) if copied else self._kept[place]

    def _places(self, index: Any, size: int) -> Sequence[int]:
        """The rows at an index, each below `size`."""
        if index is Ellipsis:
            index = slice(None)
        if isinstance(index, slice):
            return range(size)[index]
        numbers = torch.as_tensor(index)
        if numbers.dtype == torch.bool:
            if numbers.shape != (size,):
                raise IndexError(f"a mask of {list(numbers.shape)} for {size} rows")
            numbers = numbers.nonzero()
        places = [int(number) for number in numbers.flatten().tolist()]
        for place in places:
            if not -size <= place < size:
                raise IndexError(f"row {place} of a storage of {size}")
        return [place % size for place in places]

    def _empty(self) -> None:
        self._kept = []
        self._last_cursor = None
        self._changed(None)

    def state_dict(self, *, copies: bool = True) -> dict[str, Any]:
        """The rows as plain values, as `"_storage"`; see `Storage.state_dict`.

        Raises:
            TypeError: a row holds something else than tensors, text, numbers, and lists, tuples and dicts of them.
        """
        return {
            "_storage": [to_plain(self._read(place, copied=copies)) for place in range(len(self))],
            "_last_cursor": self._last_cursor,
            "_len": len(self),
            "initialized": bool(self._kept),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold the rows of a `state_dict`.

        Raises:
            TypeError: they were saved by a storage of another kind.
            ValueError: they are more than there is space for.
        """
        rows = state_dict["_storage"]
        if not isinstance(rows, list):
            raise TypeError(
                f"the rows were saved by a storage that keeps them in one tensordict, this is a {type(self).__name__}"
            )
        if len(rows) > self.max_size:
            raise ValueError(f"{len(rows)} rows were saved, and there is space for {self.max_size}")
        kept = [self._packed(self._checked(from_plain(row))) for row in rows]
        self._empty()
        self._kept = kept
        self._last_cursor = state_dict["_last_cursor"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, device={self.device})"


class LazyStackStorage(ListStorage):
    """Keeps tensordicts or tensorclasses in a list, and gives them as a lazy stack.

    Entries of different lengths are read with `get(key, as_list=True)`, or row by row.

    Args:
        max_size: how many rows; None: as many as fit into memory.
        stack_dim: along which dimension rows are stacked; from the last, if negative.
        device: where tensors are kept and sampled; None: where they are when they come.
    """

    def __init__(
        self, max_size: int | None = None, *, stack_dim: int = 0, device: DEVICE_TYPING | None = None
    ) -> None:
        super().__init__(max_size, device=device)
        self.stack_dim = stack_dim

    def get(self, index: Any) -> Any:
        """The row at a number, or a lazy stack of those at a slice or a vector of numbers.

        Raises:
            IndexError: nothing was written there.
        """
        found = super().get(index)
        if not isinstance(found, list):
            return found
        dim = self.stack_dim if self.stack_dim >= 0 else self._kept[0].ndim + 1 + self.stack_dim
        return lazy_stack(found, dim) if found else lazy_stack([_copy(self._kept[0])], dim).narrow(dim, 0, 0)

    def collate(self, rows: Any) -> Any:
        """Rows as `get` gives them."""
        return rows

    def _checked(self, row: Any) -> Any:
        if not is_tensor_collection(row):
            raise TypeError(
                f"a LazyStackStorage keeps tensordicts or tensorclasses, got {type(row).__name__}: use ListStorage"
            )
        if self._kept and row.ndim != self._kept[0].ndim:
            raise ValueError(
                f"a row has the batch size {list(row.batch_size)}, those of the replay buffer have"
                f" {self._kept[0].ndim} dimensions and would not stack with it"
            )
        return row


def _is_number(index: Any) -> bool:
    return isinstance(index, int) or (
        isinstance(index, Tensor) and not index.ndim and index.dtype != torch.bool
    )


def _stacked(key: NestedKey, values: Sequence[Tensor]) -> Tensor:
    shapes = list(dict.fromkeys(value.shape for value in values))
    if len(shapes) > 1:
        raise RuntimeError(
            f"{show_key(key)} is {list(shapes[0])} in one row and {list(shapes[1])} in another, and is read of rows that are steps:"
            " write each step as a row"
        )
    return torch.stack(list(values))


def _copy(row: Any) -> Any:
    """A row of the same values, whose tensors are its own and part of no graph; objects are shared."""
    return row.detach().clone() if isinstance(row, Tensor) or is_tensor_collection(row) else row
