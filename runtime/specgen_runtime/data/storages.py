"""Storages of replay buffers: preallocated rows in memory, on a device, or in memory-mapped files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import MemoryMappedTensor, TensorDict, is_tensor_collection
from torch import Tensor

from specgen_runtime.data.rows import (
    Leaves,
    RowData,
    allocate,
    as_rows,
    checked,
    index_on,
    leaves_of,
    reserve_disk,
    take,
)
from specgen_runtime.data.storage import Storage
from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["LazyMemmapStorage", "LazyTensorStorage", "TensorStorage"]


class TensorStorage(Storage):
    """Keeps tensordicts, tensorclasses or tensors, all rows in one of them.

    Args:
        storage: the rows; the buffer is full of them, and writes over them.
        max_size: no use with `storage`, whose length it is; as in TorchRL.
        device: where they are kept; `"auto"`: where they are.
        ndim: how many of the first dimensions count elements. With 2, the rows of `[time, batch]` are moments.

    Raises:
        ValueError: `max_size` is not the length of `storage`.
    """

    def __init__(
        self,
        storage: RowData | None,
        max_size: int | None = None,
        *,
        device: DEVICE_TYPING = "cpu",
        ndim: int = 1,
    ) -> None:
        if ndim < 1:
            raise ValueError(f"ndim is a positive number of dimensions, got {ndim}")
        if storage is None and max_size is None:
            raise ValueError("TensorStorage needs data, or a max_size")
        if storage is not None and max_size not in (None, storage.shape[0]):
            raise ValueError(f"max_size is {max_size}, the data have {storage.shape[0]} rows")
        size = max_size if storage is None else storage.shape[:ndim].numel()
        super().__init__(0 if size is None else size)
        self.ndim = ndim
        self.device = None if device == "auto" else torch.device(device)
        self._data: Any = None
        self._leaves: Leaves = {}
        self._rows = 0  # of those that were written
        if storage is not None:
            rows = as_rows(storage)
            self._keep(rows if self.device is None else rows.to(self.device))
            self._rows = rows.shape[0]

    @property
    def initialized(self) -> bool:
        """Whether the first data have come, which tell keys, shapes and dtypes."""
        return self._data is not None

    @property
    def shape(self) -> torch.Size | None:
        """The shape of what was written: its first `ndim` dimensions."""
        if self._data is None:
            return None
        return torch.Size((self._rows, *self._data.shape[1 : self.ndim]))

    def __len__(self) -> int:
        shape = self.shape
        return 0 if shape is None else shape.numel()

    def rows_of(self, data: RowData) -> int:
        """How many rows there is space for: as many as hold `max_size` elements."""
        if self._data is not None:
            return len(self._data)
        return -(-self.max_size // torch.Size(data.shape[1 : self.ndim]).numel())

    @torch.no_grad()  # rows are no part of the graph that their values come from
    def set(self, cursor: Any, data: RowData, *, set_cursor: bool = True) -> None:
        """Write rows; see `Storage.set`.

        Raises:
            KeyError: an entry is missing, or was not in the first data.
            TypeError: an entry has another dtype, or is no tensor.
            ValueError: an entry has another shape.
            IndexError: there are no rows at the cursor.
        """
        data = data if isinstance(cursor, int) and not isinstance(data, list) else as_rows(data)
        if self._data is None:
            if not set_cursor:
                raise IndexError("nothing was written into this storage yet")
            self._allocate(data.unsqueeze(0) if isinstance(cursor, int) else data)
        given = leaves_of(data)
        rows = self._data.shape[0] if set_cursor else self._rows
        highest, newest = _last_rows(cursor, rows) if set_cursor else (-1, -1)
        if isinstance(cursor, slice):
            # The parts that are written are views: a copy into them is the cheapest way.
            views = {path: leaf[:rows][cursor] for path, leaf in self._leaves.items()}
            checked(views, given)
            for path, view in views.items():
                view.copy_(given[path])
        else:
            cursor = index_on(cursor, self.device)
            checked({path: leaf[:rows][cursor] for path, leaf in self._leaves.items()}, given)
            for path, leaf in self._leaves.items():
                leaf[:rows][cursor] = given[path].to(leaf.device)
        if set_cursor:
            self._rows = max(self._rows, highest + 1)
            self._last_cursor = newest
        self._changed(cursor)

    def get(self, index: Any) -> RowData:
        """The rows at an index, among those that were written; a slice gives views.

        Raises:
            IndexError: nothing was written there.
        """
        if self._data is None:
            raise IndexError("nothing was written into this storage yet")
        return self._written()[index_on(index, self._data.device)]

    def gather(self, index: Any) -> RowData:
        """The rows at an index that is in range; int64 on the storage's device."""
        return take(self._data, index)

    def entries(self, keys: Iterable[NestedKey], index: Any) -> dict[NestedKey, Tensor]:
        """Some entries of the rows at an index; see `Storage.entries`."""
        there = {key: self._leaves.get(as_tuple(key)) for key in keys}
        return {key: leaf[: self._rows][index] for key, leaf in there.items() if leaf is not None}

    def _row_count(self) -> int:
        return self._rows

    def _written(self) -> RowData:
        data = self._data
        return data if self._rows == data.shape[0] else data[: self._rows]

    def _empty(self) -> None:
        self._rows = 0
        self._last_cursor = None
        self._changed(None)

    def _allocate(self, data: RowData) -> None:
        """Make space for rows like those of `data`."""
        if data.ndim < self.ndim:
            raise ValueError(
                f"a storage of ndim={self.ndim} takes data of as many batch dimensions, got {list(data.shape)}"
            )
        leaves_of(data)  # refuses what is no tensor, before anything is allocated
        rows = self.rows_of(data)
        with torch.inference_mode(False):  # rows are written over in and out of it
            self._keep(self._space(data, rows))
        self.max_size = rows * data.shape[1 : self.ndim].numel()

    def _space(self, data: RowData, rows: int) -> RowData:
        device = self.device or data.device
        return allocate(data, rows, device)

    def _keep(self, data: RowData) -> None:
        if self.device is None:
            self.device = data.device
        self._data = data
        self._leaves = leaves_of(data)

    def state_dict(self, *, copies: bool = True) -> dict[str, Any]:
        """The tensors of the rows that were written, by path, as `"_storage"`; see `Storage.state_dict`."""
        written = {path: leaf[: self._rows] for path, leaf in self._leaves.items()}
        return {
            "_storage": {path: leaf.clone() for path, leaf in written.items()} if copies else written,
            "_batch_size": None if self._data is None else [self._rows, *self._data.shape[1:]],
            "_nests": [] if self._data is None else _nests(self._data),
            "_last_cursor": self._last_cursor,
            "_len": len(self),
            "initialized": self.initialized,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold the rows of a `state_dict`, which must fit.

        Raises:
            TypeError: they were saved by a storage that keeps a list.
            ValueError: they are more than there is space for, or of other shapes.
        """
        leaves: Any = state_dict["_storage"]
        if isinstance(leaves, list):
            raise TypeError(
                f"the rows were saved by a storage that keeps a list, this is a {type(self).__name__}"
            )
        if not state_dict["initialized"]:
            self._empty()
            return
        rows, *_ = state_dict["_batch_size"]
        parts: dict[Any, tuple[Tensor, ...]] = {
            path: value if isinstance(value, tuple) else (value,) for path, value in leaves.items()
        }
        if self._data is None:
            firsts = {path: first[:1] for path, (first, *_) in parts.items()}
            _, *batch = state_dict["_batch_size"]
            count = min(1, rows)
            nests = [(path, [count, *of]) for path, of in state_dict.get("_nests", ())]
            self._allocate(_nested(firsts, [count, *batch], nests))
        if rows > len(self._data):
            raise ValueError(f"{rows} rows were saved, and there is space for {len(self._data)}")
        views = {path: leaf[:rows] for path, leaf in self._leaves.items()}
        wholes = {
            path: torch.empty((sum(map(len, of)), *of[0].shape[1:]), dtype=of[0].dtype, device="meta")
            for path, of in parts.items()
        }
        checked(views, wholes)
        self._empty()  # where something does not fit, the rows stay
        for path, view in views.items():
            for rows_of, part in zip(
                torch.split(view, [len(one) for one in parts[path]]), parts[path], strict=True
            ):
                rows_of.copy_(part)
        self._rows = rows
        self._last_cursor = state_dict["_last_cursor"]

    def __repr__(self) -> str:
        what = "nothing yet" if self._data is None else f"{len(self)} of {self.max_size}"
        return f"{type(self).__name__}({what}, ndim={self.ndim}, device={self.device})"


class LazyTensorStorage(TensorStorage):
    """Keeps tensordicts, tensorclasses or tensors in memory that is allocated once, when the first of them come.

    Args:
        max_size: how many elements.
        device: where they are kept and sampled; what comes in is moved there. `"auto"`: where the first data are.
        ndim: how many of the first dimensions count elements: with 2, data of `[time, batch]` have a row for each
            moment, and there is space for `max_size` divided by the batch, rounded up.
    """

    def __init__(self, max_size: int, *, device: DEVICE_TYPING = "cpu", ndim: int = 1) -> None:
        super().__init__(None, max_size, device=device, ndim=ndim)


class LazyMemmapStorage(LazyTensorStorage):
    """Keeps tensordicts or tensors in files, which are created when the first of them come.

    The whole size is reserved then, so that a full disk is an OSError at that moment and not a crash later.

    Args:
        max_size: how many elements.
        scratch_dir: the folder of the files. None: a temporary one, which goes with the storage.
        device: only the CPU.
        ndim: as for `LazyTensorStorage`.
        existsok: whether files that are there are written over.
        auto_cleanup: whether the folder is removed with the storage. None: if it is a temporary one.

    Raises:
        ValueError: for another device.
        OSError: at the first data: no space left on the device, or files are there (FileExistsError).
    """

    def __init__(
        self,
        max_size: int,
        *,
        scratch_dir: str | Path | None = None,
        device: DEVICE_TYPING = "cpu",
        ndim: int = 1,
        existsok: bool = False,
        auto_cleanup: bool | None = None,
    ) -> None:
        if device != "auto" and torch.device(device).type != "cpu":
            raise ValueError(
                f"memory-mapped tensors are on the CPU, got {device}: move samples with a DeviceCastTransform"
            )
        super().__init__(max_size, ndim=ndim)
        self.scratch_dir = None if scratch_dir is None else Path(scratch_dir)
        self.existsok = existsok
        self._auto_cleanup = scratch_dir is None if auto_cleanup is None else auto_cleanup

    def _space(self, data: RowData, rows: int) -> RowData:
        if is_tensor_collection(data):
            data = data.cpu()
        if self.scratch_dir is None:
            self.scratch_dir = Path(tempfile.mkdtemp(prefix="replay_buffer_"))
        folder = self.scratch_dir
        if self._auto_cleanup:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

        for path in leaves_of(data):
            *nests, name = path or ("rows",)
            file = folder.joinpath(*nests, f"{name}.memmap")
            if file.exists() and not self.existsok:
                raise FileExistsError(
                    f"{file} is there: existsok=True writes over it, or give another scratch_dir"
                )
        if isinstance(data, Tensor):
            file = folder / "rows.memmap"
            folder.mkdir(parents=True, exist_ok=True)
            shape = (rows, *data.shape[1:])
            mapped: Any = MemoryMappedTensor.empty(shape, dtype=data.dtype, filename=file, existsok=True)
            return _plain(mapped)
        mapped = data[0].expand(rows, *data.shape[1:]).memmap_like(prefix=folder, existsok=True)
        return mapped.apply(_plain).to("cpu").unlock_()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a LazyMemmapStorage can't be pickled: save the buffer with `dumps`")


def _plain(mapped: MemoryMappedTensor) -> Tensor:
    """A plain tensor of the same memory, whose indexing is several times quicker; all of its file can be written."""
    reserve_disk(mapped.filename, mapped.nbytes)
    plain: Tensor = mapped.as_subclass(Tensor)
    return plain


def _last_rows(cursor: Any, rows: int) -> tuple[int, int]:
    """The highest of the rows at a cursor, which must be among `rows`, and the one that is written last."""
    if isinstance(cursor, int):
        first = last = newest = cursor
    elif isinstance(cursor, slice):
        first, stop, _ = cursor.indices(rows)
        last = newest = stop - 1
    else:
        index = torch.as_tensor(cursor).flatten()
        first, last, newest = int(index.min()), int(index.max()), int(index[-1])
    if first < 0 or last >= rows:
        raise IndexError(f"rows {first} to {last} of a storage of {rows}")
    return last, newest


def _nested(
    leaves: Leaves, batch_size: list[int], nests: Iterable[tuple[Sequence[str], list[int]]]
) -> RowData:
    """A tensordict of leaves; a tensor of the one with the empty path. `nests` are those with further batch dimensions."""
    if () in leaves:
        return leaves[()]
    nested = TensorDict({}, batch_size)
    for path, of in nests:
        nested.set(tuple(path), TensorDict({}, of))
    for path, leaf in leaves.items():
        nested.set(path, leaf)
    return nested


def _nests(data: RowData, path: tuple[str, ...] = ()) -> list[tuple[list[str], list[int]]]:
    """The tensordicts inside of one that have further batch dimensions, as groups of agents: paths, and the sizes of a row."""
    found: list[tuple[list[str], list[int]]] = []
    for name, value in () if isinstance(data, Tensor) else data.items():
        if is_tensor_collection(value):
            here = (*path, name)
            if value.shape != data.shape:
                found.append(([*here], [*value.shape[1:]]))
            found += _nests(value, here)
    return found
