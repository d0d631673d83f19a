"""Writers of replay buffers: they choose the rows that new data take."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.rows import RowData
from specgen_runtime.data.storage import Storage

__all__ = ["ImmutableDatasetWriter", "RoundRobinWriter", "Writer"]

_FIRST_GENERATIONS = 2**16
"""For how many rows of a larger storage space is made at first."""


class Writer:
    """Chooses the rows of a storage that new data take, and writes them.

    Attributes:
        tracks_generations: whether `generations_of` tells rows that were written over.
    """

    tracks_generations: bool = False

    def __init__(self) -> None:
        self._storage: Storage | None = None
        self._generations: Tensor | None = None

    def register_storage(self, storage: Storage) -> None:
        """Say which storage is written."""
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """The storage that is written.

        Raises:
            RuntimeError: the writer is in no replay buffer yet.
        """
        if self._storage is None:
            raise RuntimeError(f"this {type(self).__name__} is part of no replay buffer")
        return self._storage

    def extend(self, data: RowData) -> Tensor:
        """Write a batch of rows.

        Returns:
            The index of each element, int64: `[rows]`, or `[elements, ndim]` where several dimensions count them.
        """
        raise NotImplementedError(f"{type(self).__name__} writes nothing: write `extend`")

    def add(self, data: RowData) -> Tensor:
        """Write one row; its index as of `extend`, without the dimension of rows where one dimension counts elements."""
        index = self.extend(data.unsqueeze(0))
        return index[0] if index.ndim == 1 else index

    def written(self, index: Tensor) -> Tensor:
        """The elements that were written, of the index that `extend` returned."""
        return index

    def generations_of(self, index: Tensor) -> Tensor:
        """How often each row was written before it held what it holds; -1 where that is not known.

        Args:
            index: rows, or elements `[…, ndim]` where several dimensions count them.
        """
        rows = index[..., 0] if self.storage.ndim > 1 else index
        if self._generations is None:
            return torch.full_like(rows, -1)
        return self._generations[rows.to(self._generations.device)].to(index.device)

    def _stamp(self, index: Tensor, rows: int) -> None:
        """Count that rows were written, each once, of a storage of so many."""
        if not self.tracks_generations:
            return
        if self._generations is None:
            with torch.inference_mode(False):
                size = min(rows, _FIRST_GENERATIONS)
                self._generations = torch.full((size,), -1, device=self.storage.device)
        known = self._generations
        if len(known) < rows and (needed := int(index.max()) + 1) > len(known):
            self._generations = known.new_full((min(rows, max(needed, 2 * len(known))),), -1)
            self._generations[: len(known)] = known
        self._generations[index.to(self._generations.device)] += 1  # as of a storage that was on another

    def _check_can_be_emptied(self) -> None:
        """Raise a `RuntimeError` where rows can't be forgotten."""

    def _empty(self, empty_write_count: bool = True) -> None:
        """Begin with the first row again."""

    def state_dict(self) -> dict[str, Any]:
        """Where the writer stands: the generations of rows."""
        return {"_generations": None if self._generations is None else self._generations.clone()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another writer stood."""
        generations = state_dict["_generations"]
        self._generations = None if generations is None else generations.clone()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RoundRobinWriter(Writer):
    """Writes rows one behind the other, and begins at the first again when the last is written.

    Args:
        track_generations: whether `generations_of` tells rows that were written over; samples have an entry
            `"index_generation"` then. Prioritized buffers track them in any case.
    """

    def __init__(self, *, track_generations: bool = False) -> None:
        super().__init__()
        self.tracks_generations = track_generations
        self._cursor = 0
        self._write_count = 0

    def extend(self, data: RowData) -> Tensor:
        """Write a batch of rows, the newest over the oldest; see `Writer.extend`.

        Of more rows than there is space for the last are kept.

        Raises:
            RuntimeError: there are no rows.
        """
        count = len(data)
        if count == 0:
            raise RuntimeError(
                "there is nothing to write: the data have no rows (`add` writes one that has no dimension of rows)"
            )
        storage = self.storage
        rows = storage.rows_of(data)
        kept = data[-rows:] if count > rows else data
        start = (self._cursor + count - len(kept)) % rows
        head = min(rows - start, len(kept))
        index = torch.arange(self._cursor, self._cursor + count, device=storage.device) % rows
        if head == len(kept):
            storage.set(slice(start, start + head), kept)
        elif len(kept) == rows:  # at once: a storage that grows has no rows before those at `start` yet
            storage.set(index[-rows:], kept)
        else:
            storage.set(slice(start, start + head), kept[:head])
            storage.set(slice(0, len(kept) - head), kept[head:])
        self._stamp(index[-len(kept) :], rows)
        self._cursor = (self._cursor + count) % rows
        self._write_count += count
        return _of_elements(index, storage)

    def _empty(self, empty_write_count: bool = True) -> None:
        self._cursor = 0
        if empty_write_count:
            self._write_count = 0

    def state_dict(self) -> dict[str, Any]:
        """The cursor, how many rows were written in all, and the generations of rows."""
        return {**super().state_dict(), "_cursor": self._cursor, "_write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another writer stood."""
        super().load_state_dict(state_dict)
        self._cursor = state_dict["_cursor"]
        self._write_count = state_dict["_write_count"]


class ImmutableDatasetWriter(Writer):
    """Refuses to write: for recorded data."""

    def extend(self, data: RowData) -> Tensor:
        """Refuse to write.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("this replay buffer holds recorded data: it can't be written")

    def _check_can_be_emptied(self) -> None:
        raise RuntimeError("this replay buffer holds recorded data: it can't be emptied")

    def _empty(self, empty_write_count: bool = True) -> None:
        self._check_can_be_emptied()


def _of_elements(rows: Tensor, storage: Storage) -> Tensor:
    """The index of each element of some rows."""
    shape = storage.shape
    if storage.ndim == 1 or shape is None:
        return rows
    within = torch.cartesian_prod(*(torch.arange(size, device=rows.device) for size in shape[1:]))
    within = within.reshape(-1, len(shape) - 1)
    return torch.cat([rows.repeat_interleave(len(within)).unsqueeze(1), within.repeat(len(rows), 1)], 1)
