"""`Storage`: the base class of what keeps the rows of a replay buffer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.rows import RowData, as_rows, leaves_of, row_ranges
from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.typing import NestedKey

__all__ = ["Storage"]


_REMEMBERED = 256
"""Of so many of the last writes it is known which rows they changed."""


class Storage(ABC):
    """Where a replay buffer keeps its rows.

    Args:
        max_size: how many elements it holds.

    Attributes:
        max_size: how many elements it holds.
        ndim: how many of the first dimensions of the data count elements.
        device: where sampled tensors are; None if that depends on the data.
        revision: changes whenever the contents do.
    """

    ndim: int = 1
    device: torch.device | None = None

    def __init__(self, max_size: int) -> None:
        if int(max_size) < 1:
            raise ValueError(f"max_size is a positive number of elements, got {max_size!r}")
        self.max_size = int(max_size)
        self.revision = 0
        self._changes: deque[list[tuple[int, int]] | None] = deque(maxlen=_REMEMBERED)
        self._last_cursor: int | None = None

    @abstractmethod
    def set(self, cursor: Any, data: RowData, *, set_cursor: bool = True) -> None:
        """Write rows at a cursor: a number, a slice or a vector of numbers.

        Args:
            cursor: where; along the first dimension.
            data: one row for a number, else a batch of rows.
            set_cursor: whether they are the newest rows; False: only rows that are there already change.
        """

    @abstractmethod
    def get(self, index: Any) -> RowData:
        """The rows at an index, among those that were written."""

    @abstractmethod
    def __len__(self) -> int:
        """How many elements were written."""

    @abstractmethod
    def rows_of(self, data: RowData) -> int:
        """How many rows there is space for, along the first dimension.

        Args:
            data: a batch of rows, in case nothing was written yet.
        """

    @abstractmethod
    def _empty(self) -> None: ...

    @abstractmethod
    def state_dict(self, *, copies: bool = True) -> dict[str, Any]:
        """What the storage holds.

        Args:
            copies: False: what is written later changes it.
        """

    @abstractmethod
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold what another storage held."""

    def as_batch(self, data: Any) -> RowData:
        """Data as they are written: a tensordict, tensorclass or tensor whose rows can be counted.

        Raises:
            TypeError: they are nothing that the storage can keep.
        """
        return as_rows(data)

    def collate(self, rows: Any) -> Any:
        """Rows as `get` gives them in the form of a sample."""
        return rows

    def set_entry(self, key: NestedKey, value: Any) -> None:
        """Write over an entry of all rows.

        Args:
            key: which.
            value: its values, a row of them for each.
        """
        self.get(slice(None)).set_(key, value)
        self._changed(None)

    def entries(self, keys: Iterable[NestedKey], index: Any) -> dict[NestedKey, Tensor]:
        """Some entries of the rows at an index, as far as they are there."""
        leaves = leaves_of(self.collate(self.get(index)))
        return {key: leaves[as_tuple(key)] for key in keys if as_tuple(key) in leaves}

    def changes_since(self, revision: int) -> list[tuple[int, int]] | None:
        """The rows that were written since a `revision`, or more: from the first of each pair to before the second.

        Returns:
            The pairs, in the order of the rows, none of which touch; None: they may be any rows.
        """
        count = self.revision - revision
        if not 0 <= count <= len(self._changes):
            return None
        changes = list(islice(self._changes, len(self._changes) - count, None))
        known = [ranges for ranges in changes if ranges is not None]
        if len(known) < len(changes):
            return None
        joined: list[tuple[int, int]] = []
        for first, stop in sorted(pair for ranges in known for pair in ranges):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
            else:
                joined.append((first, stop))
        return joined

    def _changed(self, index: Any) -> None:
        """Note that rows were written, among those that there are now; None: all may be others."""
        self.revision += 1
        self._changes.append(None if index is None else row_ranges(index, self._row_count()))

    def _row_count(self) -> int:
        """How many rows were written."""
        return len(self)

    @property
    def shape(self) -> torch.Size | None:
        """The shape of what was written; None if nothing was, and its shape is unknown."""
        return torch.Size([len(self)])

    @property
    def is_full(self) -> bool:
        """Whether each new row takes the place of an old one."""
        return len(self) >= self.max_size

    def gather(self, index: Any) -> RowData:
        """The rows at an index that a sampler has drawn: `get`, where each number is known to be in range."""
        return self.get(index)

    def __getitem__(self, index: Any) -> RowData:
        return self.get(index)

    def __setitem__(self, index: Any, data: RowData) -> None:
        self.set(index, data, set_cursor=False)
