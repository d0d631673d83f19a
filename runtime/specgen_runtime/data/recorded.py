"""`load_recorded`: transitions that were saved before, checked against what a training reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.data.recorded_columns import Column, RecordedDataError, RecordedSource, as_wanted
from specgen_runtime.data.recorded_episodes import EpisodeFile
from specgen_runtime.data.recorded_flat import FlatFile, hdf5_arrays, npz_arrays
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.extras import import_extra
from specgen_runtime.reported import ReportedError
from specgen_runtime.typing import NestedKey

__all__ = ["MissingDataError", "RecordedDataError", "load_recorded"]

_HDF5 = (".hdf5", ".h5", ".hdf")


class MissingDataError(ReportedError, FileNotFoundError):
    """A path at which there is no file, or nothing that holds recorded data."""


def load_recorded(
    path: str | Path,
    entries: Mapping[NestedKey, tuple[torch.dtype, tuple[int, ...]]],
    *,
    keys: Mapping[NestedKey, NestedKey] | None = None,
    at_most: int | None = None,
) -> TensorDictBase:
    """Read transitions that were recorded, one behind the other.

    What is read is a folder that was saved with `tensordict.memmap(path)`; a data set of Minari, its folder or its
    `main_data.hdf5`; or arrays of one row a step, as D4RL has them, in an HDF5 file or one of `numpy.savez`. Files of HDF5 need
    h5py (extra `hdf5`). Entries that nobody asks for are left in their files.

    Args:
        path: the folder or file.
        entries: what is read, each with its dtype and the shape that it has behind the batch dimensions.
        keys: what entries are called in the files, by what they are called here, where that differs from the usual names.
        at_most: how many transitions there is space for; None for any number.

    Returns:
        A tensordict of batch size `[frames]` with these entries: memory-mapped where they were saved so in one batch dimension,
        else in memory.

    Raises:
        ImportError: h5py is not installed, and the file needs it.
        MissingDataError: the folder or file is not there, or holds no recorded data.
        RecordedDataError: it holds no transitions or too many, lacks an entry, or has one of another dtype or shape; all are named.
    """
    named = {as_tuple(here): as_tuple(there) for here, there in (keys or {}).items()}
    with _opened(Path(path).expanduser()) as source:
        return _read(source, entries, named, at_most)


def _read(
    source: RecordedSource,
    entries: Mapping[NestedKey, tuple[torch.dtype, tuple[int, ...]]],
    named: Mapping[tuple[str, ...], tuple[str, ...]],
    at_most: int | None,
) -> TensorDictBase:
    found = source.columns([as_tuple(key) for key in entries], named)
    if source.frames == 0 and not all(isinstance(one, str) for one in found.values()):
        raise RecordedDataError(f"{source.path} holds no transitions{source.why_none}")
    if at_most is not None and source.frames > at_most:
        raise RecordedDataError(
            f"{source.path} holds {source.frames} transitions, and there is space for {at_most}"
        )
    wrong: list[str] = []
    columns: dict[NestedKey, Column] = {}
    for key, (dtype, shape) in entries.items():
        column = found[as_tuple(key)]
        if isinstance(column, str):
            wrong.append(f"{key!r}{column}")
            continue
        fitting = (
            as_wanted(column, dtype, tuple(shape), f"{source.path}: {key!r}") if source.converts else column
        )
        if fitting.dtype != dtype or fitting.shape != tuple(shape):
            wrong.append(
                f"{key!r} must be {dtype} of shape {list(shape)} behind the batch, got {column.dtype} {list(column.shape)}"
            )
            continue
        columns[key] = fitting
    if wrong:
        said = f"{source.path} does not hold what is read of it: {'; '.join(wrong)}"
        there = ", ".join(sorted(source.names)) if source.converts else ""
        raise RecordedDataError(f"{said}; it holds {there}" if there else said)
    data = TensorDict({}, [source.frames], device=source.device)
    for key, column in columns.items():
        data.set(key, column.read())
    return data


def _opened(path: Path) -> RecordedSource:
    """What is at a path, as one of the forms that are read."""
    if path.is_dir():
        if (path / "meta.json").is_file():
            return _Saved(path)
        for file in (path / "data" / "main_data.hdf5", path / "main_data.hdf5"):
            if file.is_file():
                return _opened_hdf5(file)
    elif path.is_file() and path.suffix == ".npz":
        return FlatFile(path, *npz_arrays(path))
    elif path.is_file() and path.suffix in _HDF5:
        return _opened_hdf5(path)
    wanted = (
        f"save some with `rollout.memmap({str(path)!r})`, or name an .hdf5 or .npz file, or a Minari data set"
    )
    if path.is_dir() and any((at / "metadata.json").is_file() for at in (path, path / "data")):
        wanted = "of Minari's formats HDF5 is read, `data_format='hdf5'`"
    what = "holds no recorded data" if path.exists() else "is not there"
    raise MissingDataError(f"{path} {what}: {wanted}")


def _opened_hdf5(path: Path) -> RecordedSource:
    h5py = import_extra("h5py", f"reading {path.name} needs h5py", "hdf5")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise RecordedDataError(f"{path} is no HDF5 file: {error}") from error
    if any(name.startswith("episode_") for name in file):
        return EpisodeFile(path, file)
    return FlatFile(path, hdf5_arrays(file), file.close)


class _Saved(RecordedSource):
    """A folder that a tensordict was saved in: its entries are called and typed as those of a training."""

    converts = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.data: TensorDictBase = TensorDict.load_memmap(path)
        self.frames = 0 if 0 in self.data.batch_size else self.data.numel()
        self.why_none = f": its batch size is {list(self.data.batch_size)}"
        self.device = self.data.device

    def columns(
        self, wanted: list[tuple[str, ...]], named: Mapping[tuple[str, ...], tuple[str, ...]]
    ) -> dict[tuple[str, ...], Column | str]:
        """The entries of these keys, or what to say of those that are missing."""
        known = {as_tuple(key) for key in self.data.keys(True, True)}
        return {key: self._column(key, named.get(key, key), known) for key in wanted}

    def _column(
        self, key: tuple[str, ...], name: tuple[str, ...], known: set[tuple[str, ...]]
    ) -> Column | str:
        if name not in known:
            called = name[0] if len(name) == 1 else name
            return " is missing" if name == key else f", which is called {called!r} there, is missing"
        value: torch.Tensor = self.data.get(name)
        shape = tuple(value.shape[self.data.batch_dims :])

        def read() -> torch.Tensor:
            return value if self.data.batch_dims == 1 else value.reshape(self.frames, *shape)

        return Column(value.dtype, shape, read)
