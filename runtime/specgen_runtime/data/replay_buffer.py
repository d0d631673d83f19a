"""`ReplayBuffer`: data that are written row by row, and sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from specgen_runtime.data.list_storages import ListStorage
from specgen_runtime.data.parts import kept_on_error, load_part, made_part
from specgen_runtime.data.rows import RowData, elements_at, index_on, is_key, rows_first
from specgen_runtime.data.samplers import Drawn, RandomSampler, Sampler
from specgen_runtime.data.samples import Drawing, Sample, Samples
from specgen_runtime.data.saving import load_state, save_state
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.transforms import InvertedTransform
from specgen_runtime.data.writers import RoundRobinWriter, Writer
from specgen_runtime.transforms import Compose, Transform
from specgen_runtime.transforms.function import TransformLike, as_transform

__all__ = ["ReplayBuffer"]


class ReplayBuffer:
    """Keeps data that were collected, and samples them.

    What comes in passes the transforms' `inv`, what is sampled their `forward`. All data have the keys, shapes and
    dtypes of the first, unless the storage keeps a list.

    Args:
        storage: where rows are kept, or a function that makes the storage; None: a `ListStorage` of 1000 rows.
        sampler: draws which are sampled; None: a `RandomSampler`.
        writer: chooses where new rows are written; None: a `RoundRobinWriter`.
        collate_fn: called with each sample as the storage gives it, before the transforms. None: the storage's `collate`.
        pin_memory: whether samples are copied to pinned memory, from which copies to a GPU are quick.
        prefetch: how many samples are gathered and transformed ahead, by a thread. They were drawn when the one before
            was asked for, so they know nothing of what was written or which priorities were changed since.
        transform: transforms of samples, or a function of one.
        batch_size: how many elements a sample has; else `sample` is told.
        dim_extend: along which dimension of what comes in time runs, and rows are appended. None: the last of those
            that count elements (`storage.ndim - 1`): data of `[batch, time]` for a storage of `ndim=2`.
        generator: what the sampler draws from, and transforms that draw. None: torch's own.

    Attributes:
        storage, sampler, writer, dim_extend: as they were given, or made; `set_storage` and its like replace parts.
        transform: the transforms, in a `Compose`.

    Raises:
        ValueError: `prefetch`, or a sampler with `drop_last`, without a `batch_size`; a negative `dim_extend`.

    Example:
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(1000), batch_size=32)
        >>> buffer.extend(env.rollout(100).reshape(-1))
        >>> buffer.sample().shape
        torch.Size([32])
    """

    def __init__(
        self,
        *,
        storage: Storage | Callable[[], Storage] | None = None,
        sampler: Sampler | Callable[[], Sampler] | None = None,
        writer: Writer | Callable[[], Writer] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        prefetch: int | None = None,
        transform: TransformLike | None = None,
        batch_size: int | None = None,
        dim_extend: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        self.storage: Storage = made_part(storage, Storage, partial(ListStorage, 1000))
        self.sampler: Sampler = made_part(sampler, Sampler, RandomSampler)
        self.writer: Writer = made_part(writer, Writer, RoundRobinWriter)
        self.writer.register_storage(self.storage)
        self.transform = Compose()
        if dim_extend is not None and dim_extend < 0:
            raise ValueError(f"dim_extend is a dimension counted from the first, got {dim_extend}")
        self.dim_extend = self.storage.ndim - 1 if dim_extend is None else dim_extend
        self._collate_fn = collate_fn
        self._samples = Samples(self.transform, batch_size, prefetch or 0, pin_memory)
        self._check_sampler(self.sampler)
        self.set_rng(generator)
        if transform is not None:
            self.append_transform(transform)

    @property
    def batch_size(self) -> int | None:
        """How many elements a sample has, if `sample` is not told."""
        return self._samples.batch_size

    @property
    def generator(self) -> torch.Generator | None:
        """What is drawn from; changed by `set_rng`."""
        return self._samples.generator

    @property
    def write_count(self) -> int:
        """How many rows were written in all."""
        return int(getattr(self.writer, "_write_count", 0))

    def append_transform(self, transform: TransformLike, *, invert: bool = False) -> Self:
        """Add a transform at the end: the last of what is sampled, the first of what comes in.

        Args:
            transform: or a function of a sample.
            invert: whether what comes in passes its `forward`, and what is sampled its `inv`.
        """
        return self.insert_transform(len(self.transform), transform, invert=invert)

    def insert_transform(self, index: int, transform: TransformLike, *, invert: bool = False) -> Self:
        """Add a transform before the one at `index`; see `append_transform`."""
        entry: Transform = as_transform(transform)
        self.transform.insert(index, (InvertedTransform(entry) if invert else entry).eval())
        return self

    def set_rng(self, generator: torch.Generator | None) -> None:
        """Draw from another generator from now on; None: torch's own."""
        if not isinstance(generator, torch.Generator | None):
            raise TypeError(
                f"generator is a torch.Generator, got {generator!r}: torch.Generator().manual_seed(0)"
            )
        self._samples.generator = self.sampler._rng = generator

    def set_sampler(self, sampler: Sampler) -> Sampler:
        """Draw with another sampler from now on, and return the one before. Samples that were prefetched are dropped.

        Raises:
            ValueError: a sampler with `drop_last` for a buffer without a `batch_size`.
        """
        self._check_sampler(sampler)
        with self._samples.idle():
            self._samples.clear()
            before, self.sampler = self.sampler, sampler
            sampler._rng = self.generator
        return before

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> Storage:
        """Keep rows elsewhere from now on, as a buffer that was made with that storage, and return the one before.

        Nothing is copied: the buffer has the rows that are in it, the first row is written next, and the sampler knows nothing
        of the rows that were in the other one.

        Args:
            storage: where.
            collate_fn: called with each sample as the storage gives it; None: the storage's `collate`.

        Raises:
            RuntimeError: the buffer holds recorded data.
            ValueError: another number of dimensions counts its elements.
        """
        if storage.ndim != self.storage.ndim:
            raise ValueError(
                f"{self.storage.ndim} dimensions count the elements of this replay buffer, and {storage.ndim} those of the "
                "storage: make a new replay buffer"
            )
        with self._samples.idle():
            self._samples.clear()
            self.writer._empty()
            self.sampler._empty()
            before, self.storage = self.storage, storage
            self.writer.register_storage(storage)
            self._collate_fn = collate_fn
        return before

    def set_writer(self, writer: Writer) -> Writer:
        """Write with another writer from now on, which begins where it stands, and return the one before.

        Raises:
            ValueError, TypeError: it can't write this storage; the buffer is as it was.
        """
        with self._samples.idle():
            writer.register_storage(self.storage)
            before, self.writer = self.writer, writer
            self._check_sampler(self.sampler)
        return before

    def _check_sampler(self, sampler: Sampler) -> None:
        """Refuse a sampler that this buffer can't have."""
        if self.batch_size is None and (self._samples.ahead or getattr(sampler, "drop_last", False)):
            what = "prefetch" if self._samples.ahead else "drop_last"
            raise ValueError(f"{what} needs samples of one size: give the replay buffer a batch_size")

    def extend(self, data: RowData) -> Tensor:
        """Write a batch.

        Args:
            data: a tensordict, tensorclass or tensor, or a list of them; for a `ListStorage` of any objects. Its dimension
                `dim_extend` counts rows.

        Returns:
            The index of each element, int64, rows first: `[rows]`, or `[elements, ndim]` where several dimensions count
            them. It is empty if a transform holds the data back; -1 for rows that the writer left out.

        Raises:
            KeyError: an entry is missing, or was not in the first data.
            TypeError: an entry has another dtype than in the first data, or is no tensor.
            ValueError: an entry has another shape.
        """
        return self._written(self._samples.inverted(self.storage.as_batch(data)))

    def add(self, data: RowData) -> Tensor:
        """Write one row, as `extend` does, and return its index: a number, or `[elements, ndim]` where several dimensions count them."""
        rows = data.unsqueeze(self.dim_extend) if hasattr(data, "unsqueeze") else [data]
        index = self._written(self._samples.inverted(self.storage.as_batch(rows)))
        return index[0] if index.ndim == 1 and len(index) == 1 else index

    def _written(self, data: RowData | None) -> Tensor:
        """Write what the transforms gave, rows along `dim_extend`; see `extend`."""
        if data is None:
            ndim = self.storage.ndim
            return torch.zeros(
                (0,) if ndim == 1 else (0, ndim), dtype=torch.int64, device=self.storage.device
            )
        with self._samples.idle():  # a thread reads what changes here
            index = self.writer.extend(self._rows_first(data))
            written = self.writer.written(index)
            self.sampler.extend(written)
            self.sampler.mark_update(written, storage=self.storage)
        return index

    def _rows_first(self, data: Any) -> Any:
        """Data with rows along the first dimension, of data with rows along `dim_extend`; and back."""
        return rows_first(data, self.dim_extend)

    def update_priority(self, index: Drawn, priority: Tensor | float) -> None:
        """Change the priority of elements.

        Args:
            index: as `sample` gave it, or `extend`.
            priority: one for all, or one for each; where it has the dimensions of what came in, rows are along
                `dim_extend`.

        Raises:
            ValueError: a priority is negative or not finite, or their number is another.
        """
        if isinstance(index, tuple):
            index = torch.stack(index, -1)
        if isinstance(priority, Tensor) and self.dim_extend and priority.ndim > self.dim_extend:
            priority = self._rows_first(priority).flatten()
        with self._samples.idle():
            self.sampler.update_priority(index, priority, storage=self.storage)

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all rows; the space for them is kept.

        Args:
            empty_write_count: whether `write_count` begins anew.

        Raises:
            RuntimeError: the buffer holds recorded data; it is as it was.
        """
        with self._samples.idle():
            self.writer._empty(empty_write_count)
            self._samples.clear()
            self.sampler._empty()
            self.storage._empty()

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Draw a sample.

        Args:
            batch_size: how many elements; None: the buffer's own number.
            return_info: whether what is known of the sample is returned, too.

        Returns:
            The sample; with `return_info` also a dict: `"index"`, the elements it consists of, and what the sampler says.

        Raises:
            RuntimeError: the buffer is empty; `batch_size` is given nowhere.
        """
        result = self._samples.next(self._draw, batch_size)
        data = self._finished(result)
        return (data, result.info) if return_info else data

    def __iter__(self) -> Iterator[Any]:
        """Samples of the buffer's `batch_size`, until the sampler runs out; most never do."""
        last = False
        while not last:
            result = self._samples.next(self._draw)
            last = result.last
            yield self._finished(result)

    def next(self) -> Any:
        """The next sample, as iterating over the buffer gives it; None behind the last one, and then from the first on again."""
        if self._samples.pass_ended:
            self._samples.pass_ended = False
            return None
        result = self._samples.next(self._draw)
        self._samples.pass_ended = result.last
        return self._finished(result)

    def _draw(self, batch_size: int) -> Drawing:
        """Draw the elements of a sample."""
        index, info = self.sampler.sample(self.storage, batch_size)
        info["index"] = index
        if self.writer.tracks_generations:
            stacked = torch.stack(index, -1) if isinstance(index, tuple) else index
            info["index_generation"] = self.writer.generations_of(stacked)
        return Drawing(self._reading(index), info, self.sampler.ran_out)

    def _reading(self, index: Drawn) -> Callable[[], RowData]:
        """What reads the elements that were drawn, before the transforms; perhaps in a thread."""
        storage, collate = self.storage, self._collate_fn or self.storage.collate
        return lambda: collate(storage.gather(index))

    def _finished(self, result: Sample) -> Any:
        """A sample as it is handed out."""
        return result.data

    def __len__(self) -> int:
        return len(self.storage)

    def __getitem__(self, index: Any) -> RowData:
        """What was written, after the transforms, or an entry of all of it for a key.

        Args:
            index: of all data in the form in which they came in, rows along `dim_extend`; or a key.
        """
        if is_key(index):
            return self[:][index]
        with self._samples.idle():
            rows = self.storage.collate(self.storage.get(slice(None) if self.dim_extend else index))
            if self.dim_extend:
                rows = self._rows_first(rows)[index_on(index, rows.device)]
            return self._samples.transformed(rows)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write over rows that are there, after the transforms' `inv`; or over an entry of all of them for a key.

        Raises:
            KeyError, TypeError, ValueError: as `extend`.
        """
        with self._samples.idle():
            if is_key(index):
                self.storage.set_entry(index, self._rows_first(value))
                return
            value = self._samples.inverted(self.storage.as_batch(value))
            if self.dim_extend:
                index, value = elements_at(self.storage[:], self.dim_extend, index, value)
            self.storage[index] = value

    def state_dict(self) -> dict[str, Any]:
        """Everything that what is sampled next depends on, as copies: rows, sampler, writer, transforms, generator.

        Samples that were prefetched are among it.
        """
        with self._samples.idle():
            return {"_storage": self.storage.state_dict(), **self._state_but_rows()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another buffer of the same parts stood.

        Raises:
            KeyError, RuntimeError, TypeError, ValueError: it fits a part of this buffer not, which is as it was before.
        """
        with self._samples.idle(), self._samples.kept_on_error(), kept_on_error(self.sampler, self.writer):
            load_part(self.sampler, state_dict["_sampler"])
            load_part(self.writer, state_dict["_writer"])
            self._samples.load_state_dict(state_dict)
            self.storage.load_state_dict(state_dict["_storage"])  # last: it is all or nothing
        self.set_rng(self.generator)

    def _state_but_rows(self) -> dict[str, Any]:
        parts = {"_sampler": self.sampler.state_dict(), "_writer": self.writer.state_dict()}
        return {**parts, **self._samples.state_dict()}

    def dumps(self, path: str | Path) -> None:
        """Save `state_dict` in a folder, which is made: all of it or nothing. What was saved there stays until this is whole.

        Raises:
            OSError: there is no space left, for example. What was saved there before is as it was.
        """
        with self._samples.idle():
            save_state(Path(path), self.storage.state_dict(copies=False), self._state_but_rows())

    def loads(self, path: str | Path) -> None:
        """Go on from where the buffer stood that was saved in a folder; see `load_state_dict`.

        Raises:
            FileNotFoundError: no buffer was saved there.
            OSError: a file is not what was written; it is named.
        """
        self.load_state_dict(load_state(Path(path)))

    def __getstate__(self) -> dict[str, Any]:
        with self._samples.idle():
            return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.set_rng(self.generator)  # samplers come without

    def __repr__(self) -> str:
        parts = f"storage={self.storage}, sampler={self.sampler}, writer={self.writer}"
        return f"{type(self).__name__}({parts}, batch_size={self.batch_size})"
