"""`ReplayBuffer`: data that are written row by row, and sampled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from specgen_runtime.data.buffer_parts import BufferParts
from specgen_runtime.data.prefetching import Drawing, Sample
from specgen_runtime.data.rows import RowData, elements_at, is_key
from specgen_runtime.data.samplers import Drawn, Sampler
from specgen_runtime.data.saving import load_state, save_state
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.transforms import InvertedTransform, transformed
from specgen_runtime.data.writers import Writer
from specgen_runtime.random_state import load_generator
from specgen_runtime.transforms import Compose, Transform
from specgen_runtime.transforms.function import TransformLike, as_transform

__all__ = ["ReplayBuffer"]


class ReplayBuffer(BufferParts):
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
        storage: where rows are kept.
        sampler: what draws which of them are sampled.
        writer: what chooses where new ones are written.
        transform: the transforms, in a `Compose`.
        batch_size: how many elements a sample has, if `sample` is not told.
        dim_extend: along which dimension of what comes in rows are appended.
        generator: what is drawn from; changed by `set_rng`.

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
        super().__init__(storage, sampler, writer, collate_fn, prefetch or 0, batch_size, generator)
        if dim_extend is not None and dim_extend < 0:
            raise ValueError(f"dim_extend is a dimension counted from the first, got {dim_extend}")
        self.dim_extend = self.storage.ndim - 1 if dim_extend is None else dim_extend
        self._pin_memory = pin_memory
        self._pass_ended = False  # by the sample that `next` gave
        self.transform = Compose()
        if transform is not None:
            self.append_transform(transform)

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
        return self._extended(self._incoming(data))

    def add(self, data: RowData) -> Tensor:
        """Write one row: `extend` with what has no dimension of rows.

        Returns:
            Its index: a number, or `[elements, ndim]` where several dimensions count elements.
        """
        rows = data.unsqueeze(self.dim_extend) if hasattr(data, "unsqueeze") else [data]
        index = self._extended(self._incoming(rows))
        return index[0] if index.ndim == 1 and len(index) == 1 else index

    def _extended(self, rows: RowData | None) -> Tensor:
        return self._nothing() if rows is None else self._write(rows)

    def _incoming(self, data: RowData) -> RowData | None:
        """What is to be written, after the transforms; rows are still along `dim_extend`."""
        return self._transformed(self.transform.inv, self.storage.as_batch(data))

    def _transformed(self, apply: Callable[..., Any], data: RowData) -> RowData:
        if not len(self.transform):
            return data
        self._prefetcher.wait()  # its thread runs the same transforms
        return transformed(apply, data, self.generator)

    def _write(self, data: RowData) -> Tensor:
        with self._lock:
            self._prefetcher.wait()  # its thread reads what changes here
            index = self.writer.extend(self._rows_first(data))
            written = self.writer.written(index)
            self.sampler.extend(written)
            self.sampler.mark_update(written, storage=self.storage)
        return index

    def _nothing(self) -> Tensor:
        ndim = self.storage.ndim
        return torch.zeros((0,) if ndim == 1 else (0, ndim), dtype=torch.int64, device=self.storage.device)

    def _rows_first(self, data: Any) -> Any:
        """Data with rows along the first dimension, of data with rows along `dim_extend`; and back."""
        return data.transpose(0, self.dim_extend) if self.dim_extend else data

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
        with self._lock:
            self._prefetcher.wait()
            self.sampler.update_priority(index, priority, storage=self.storage)

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget all rows; the space for them is kept.

        Args:
            empty_write_count: whether `write_count` begins anew.

        Raises:
            RuntimeError: the buffer holds recorded data; it is as it was.
        """
        self._check_can_be_emptied()
        with self._lock:
            self._prefetcher.wait()
            self._prefetcher.clear()
            self.writer._empty(empty_write_count)
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
        result = self._next_sample(self._size(batch_size))
        data = self._finished(result)
        return (data, result.info) if return_info else data

    def _size(self, batch_size: int | None) -> int:
        if batch_size is None:
            if self.batch_size is None:
                raise RuntimeError("give `sample`, or the replay buffer, a batch_size")
            return self.batch_size
        if self._prefetcher.count and batch_size != self.batch_size:
            raise ValueError(
                f"samples of {self.batch_size} are prefetched, one of {batch_size} was asked for: leave out batch_size"
            )
        if self.batch_size is not None and batch_size != self.batch_size:
            warnings.warn(
                f"the replay buffer's batch_size is {self.batch_size}, this sample's is {batch_size}",
                stacklevel=3,
            )
        return batch_size

    def _next_sample(self, batch_size: int) -> Sample:
        with self._lock:
            return self._prefetcher.next(lambda: self._draw(batch_size))

    def _draw(self, batch_size: int) -> Drawing:
        """Draw the elements of a sample."""
        index, info = self.sampler.sample(self.storage, batch_size)
        info["index"] = index
        if self.writer.tracks_generations:
            stacked = torch.stack(index, -1) if isinstance(index, tuple) else index
            info["index_generation"] = self.writer.generations_of(stacked)
        gather, last = self._gathering(index, bool(self._prefetcher.count)), self.sampler.ran_out
        return Drawing(lambda: Sample(gather(), info, last), last)

    def _gathering(self, index: Drawn, ahead: bool) -> Callable[[], RowData]:
        """What reads and transforms the elements that were drawn; `ahead`: in a thread."""
        return self._collating(lambda: self.storage.gather(index), ahead)

    def _collating(self, read: Callable[[], Any], ahead: bool) -> Callable[[], RowData]:
        """What collates and transforms what is read; `ahead`: in a thread."""
        generator = self.generator
        if ahead and generator is not None and len(self.transform):
            # The thread has a generator of its own: it must not draw from one while a sampler does.
            seed = torch.randint(2**62, (), generator=generator, device=generator.device)
            generator = torch.Generator(generator.device).manual_seed(int(seed))

        def collate() -> RowData:
            data = (self._collate_fn or self.storage.collate)(read())
            data = transformed(self.transform, data, generator) if len(self.transform) else data
            return data.pin_memory() if self._pin_memory else data

        return collate

    def __iter__(self) -> Iterator[Any]:
        """Samples, until the sampler runs out; most never do.

        Raises:
            RuntimeError: the buffer has no batch_size.
        """
        size, last = self._size(None), False
        while not last:
            result = self._next_sample(size)
            last = result.last
            yield self._finished(result)

    def next(self) -> Any:
        """The next sample, as iterating over the buffer gives it; None behind the last one, and then from the first on again."""
        if self._pass_ended:
            self._pass_ended = False
            return None
        result = self._next_sample(self._size(None))
        self._pass_ended = result.last
        return self._finished(result)

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
        with self._lock:
            if self.dim_extend:
                whole = self._rows_first(self.storage.collate(self.storage.get(slice(None))))
                data = whole[index.to(whole.device) if isinstance(index, Tensor) else index]
            else:
                data = self.storage.collate(self.storage.get(index))
            return self._transformed(self.transform, data.copy() if len(self.transform) else data)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write over rows that are there, after the transforms' `inv`; or over an entry of all of them for a key.

        Raises:
            KeyError, TypeError, ValueError: as `extend`.
        """
        with self._lock:
            self._prefetcher.wait()
            if is_key(index):
                self.storage.set_entry(index, self._rows_first(value))
                return
            value = self._incoming(value)
            if self.dim_extend:
                index, value = elements_at(self.storage[:], self.dim_extend, index, value)
            self.storage[index] = value

    def state_dict(self) -> dict[str, Any]:
        """Everything that what is sampled next depends on, as copies: rows, sampler, writer, transforms, generator.

        Samples that were prefetched are among it.
        """
        with self._lock:
            self._prefetcher.wait()
            return {"_storage": self.storage.state_dict(), **self._state_beside_rows()}

    def _state_beside_rows(self) -> dict[str, Any]:
        generator = self.generator
        return {
            "_sampler": self.sampler.state_dict(),
            "_writer": self.writer.state_dict(),
            "_transforms": self.transform.state_dict(),
            "_batch_size": self.batch_size,
            "_prefetched": self._prefetcher.state(),
            "_rng": None if generator is None else (generator.get_state(), str(generator.device)),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another buffer of the same parts stood.

        Raises:
            KeyError, TypeError, ValueError: the rows don't fit this storage.
        """
        with self._lock:
            self._prefetcher.wait()
            self.storage.load_state_dict(state_dict["_storage"])
            self.sampler.load_state_dict(state_dict["_sampler"])
            self.writer.load_state_dict(state_dict["_writer"])
            self._load_beside_rows(state_dict)

    def _load_beside_rows(self, state_dict: dict[str, Any]) -> None:
        self.transform.load_state_dict(state_dict["_transforms"])
        if self.batch_size is None:
            self.batch_size = state_dict["_batch_size"]
        self._prefetcher.load(state_dict["_prefetched"])
        if state_dict["_rng"] is not None:
            state, device = state_dict["_rng"]
            generator = torch.Generator(device) if self.generator is None else self.generator
            load_generator(generator, state)
            self.set_rng(generator)

    def dumps(self, path: str | Path) -> None:
        """Save `state_dict` in a folder, all of it or nothing: what was saved there before stays until this is whole.

        Args:
            path: the folder; it is made if it is not there.

        Raises:
            OSError: there is no space left, for example. What was saved there before is as it was.
        """
        with self._lock:
            self._prefetcher.wait()
            save_state(Path(path), self.storage.state_dict(copies=False), self._state_beside_rows())

    def loads(self, path: str | Path) -> None:
        """Go on from where the buffer stood that was saved in a folder; see `load_state_dict`.

        Raises:
            FileNotFoundError: no buffer was saved there.
        """
        self.load_state_dict(load_state(Path(path)))

    def __repr__(self) -> str:
        parts = f"storage={self.storage}, sampler={self.sampler}, writer={self.writer}"
        return f"{type(self).__name__}({parts}, batch_size={self.batch_size})"
