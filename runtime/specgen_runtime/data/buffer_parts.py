"""What a replay buffer consists of: a storage, a sampler and a writer, each of which can be replaced."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any

import torch

from specgen_runtime.data.list_storages import ListStorage
from specgen_runtime.data.prefetching import Prefetcher
from specgen_runtime.data.samplers import RandomSampler, Sampler
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.writers import RoundRobinWriter, Writer
from specgen_runtime.random_state import generator_of, plain_generator

__all__ = ["BufferParts", "made_storage"]


class BufferParts:
    """The parts of a replay buffer.

    Args:
        storage: where rows are kept, or a function that makes the storage; None: a `ListStorage` of 1000 rows.
        sampler: draws which are sampled; None: a `RandomSampler`.
        writer: chooses where new rows are written; None: a `RoundRobinWriter`.
        collate_fn: called with each sample as the storage gives it; None: the storage's `collate`.
        prefetch: how many samples are gathered ahead.
        batch_size: how many elements a sample has; None: `sample` is told.
        generator: what the sampler draws from; None: torch's own.
    """

    def __init__(
        self,
        storage: Storage | Callable[[], Storage] | None,
        sampler: Sampler | Callable[[], Sampler] | None,
        writer: Writer | Callable[[], Writer] | None,
        collate_fn: Callable[[Any], Any] | None,
        prefetch: int,
        batch_size: int | None,
        generator: torch.Generator | None,
    ) -> None:
        self.storage: Storage = made_storage(storage)
        self.sampler: Sampler = sampler if isinstance(sampler, Sampler) else (sampler or RandomSampler)()
        self.writer: Writer = writer if isinstance(writer, Writer) else (writer or RoundRobinWriter)()
        self.writer.register_storage(self.storage)
        self.batch_size = batch_size
        self._collate_fn = collate_fn
        self._prefetcher = Prefetcher(prefetch)
        self._lock = RLock()
        self._check_sampler(self.sampler)
        self.set_rng(generator)

    @property
    def write_count(self) -> int:
        """How many rows were written in all."""
        return int(getattr(self.writer, "_write_count", 0))

    def set_rng(self, generator: torch.Generator | None) -> None:
        """Draw from another generator from now on; None: torch's own."""
        self.generator = generator
        self.sampler._rng = generator

    def set_sampler(self, sampler: Sampler) -> Sampler:
        """Draw with another sampler from now on. Samples that were prefetched are dropped.

        Returns:
            The sampler that was there.

        Raises:
            ValueError: a sampler with `drop_last` for a buffer without a `batch_size`.
        """
        self._check_sampler(sampler)
        with self._lock:
            self._prefetcher.clear()
            before, self.sampler = self.sampler, sampler
            sampler._rng = self.generator
        return before

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> Storage:
        """Keep rows elsewhere from now on, as a buffer that was made with that storage.

        Nothing is copied: the buffer has the rows that are in it, the first row is written next, and the sampler knows nothing
        of the rows that were in the other one.

        Args:
            storage: where.
            collate_fn: called with each sample as the storage gives it; None: the storage's `collate`.

        Returns:
            The storage that was there.

        Raises:
            RuntimeError: the buffer holds recorded data.
            ValueError: another number of dimensions counts its elements.
        """
        if storage.ndim != self.storage.ndim:
            raise ValueError(
                f"{self.storage.ndim} dimensions count the elements of this replay buffer, and {storage.ndim} those of the "
                "storage: make a new replay buffer"
            )
        with self._lock:
            self._prefetcher.clear()
            self.writer._empty()
            self.sampler._empty()
            before, self.storage = self.storage, storage
            self.writer.register_storage(storage)
            self._collate_fn = collate_fn
        return before

    def set_writer(self, writer: Writer) -> Writer:
        """Write with another writer from now on, which begins where it stands.

        Returns:
            The writer that was there.

        Raises:
            ValueError, TypeError: it can't write this storage; the buffer is as it was.
        """
        with self._lock:
            self._prefetcher.wait()
            writer.register_storage(self.storage)
            before, self.writer = self.writer, writer
            self._check_sampler(self.sampler)
        return before

    def _check_sampler(self, sampler: Sampler) -> None:
        """Refuse a sampler that this buffer can't have."""
        if self.batch_size is None and (self._prefetcher.count or getattr(sampler, "drop_last", False)):
            what = "prefetch" if self._prefetcher.count else "drop_last"
            raise ValueError(f"{what} needs samples of one size: give the replay buffer a batch_size")

    def _check_can_be_emptied(self) -> None:
        """Raise a `RuntimeError` where rows can't be forgotten."""
        self.writer._check_can_be_emptied()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            self._prefetcher.wait()
            return {**self.__dict__, "_lock": None, "generator": plain_generator(self.generator)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=RLock())
        self.set_rng(generator_of(state["generator"]))


def made_storage(storage: Storage | Callable[[], Storage] | None) -> Storage:
    """The storage that was given or is made; a list of 1000 rows for None."""
    if storage is None:
        return ListStorage(1000)
    return storage if isinstance(storage, Storage) else storage()
