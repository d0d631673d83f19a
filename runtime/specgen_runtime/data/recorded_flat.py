"""Arrays of one row a step, episode behind episode, as D4RL has them: in an HDF5 file, or one of `numpy.savez`."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.data.recorded_columns import (
    Column,
    Key,
    RecordedDataError,
    RecordedSource,
    dtype_of,
    tensor_of,
    truth_values,
)

__all__ = ["FlatFile", "hdf5_arrays", "npz_arrays"]

_TERMINATED = ("next", "terminated")
_TRUNCATED = ("next", "truncated")
_DONE = ("next", "done")

_USUAL: Mapping[Key, tuple[str, ...]] = {
    ("observation",): ("observations",),
    ("action",): ("actions",),
    ("next", "observation"): ("next_observations",),
    ("next", "reward"): ("rewards",),
    _TERMINATED: ("terminals", "terminations"),
    _TRUNCATED: ("timeouts", "truncations"),
}
"""What entries are called there, if nobody says otherwise."""


def hdf5_arrays(file: Any) -> dict[Key, Any]:
    """The arrays of an open HDF5 file or group, by their path; without links that lead nowhere, or back."""
    return dict(_arrays(file, (), ()))


def _arrays(group: Any, path: Key, above: tuple[Any, ...]) -> Iterator[tuple[Key, Any]]:
    for name, found in group.items():
        if found is None or found in above:
            continue
        if hasattr(found, "items"):
            yield from _arrays(found, (*path, name), (*above, found))
        else:
            yield (*path, name), found


def npz_arrays(path: Path) -> tuple[dict[Key, Any], Callable[[], None]]:
    """The arrays of a file of `numpy.savez`, each of which is read when it is asked for, and what closes it."""
    try:
        file = np.load(path, allow_pickle=False)
    except _BROKEN as error:
        raise RecordedDataError(f"{path} is no file of `numpy.savez`: {error}") from error
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise RecordedDataError(f"{path} is no file of `numpy.savez`: it holds one array without a name")
    return {(name,): _Member(path, file, name) for name in file.files}, file.close


_BROKEN = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading a file of `numpy.savez` raises that is another, or broken, or holds pickled objects."""


class _Member:
    """An array of an .npz file, which is read once and only if something asks for it."""

    def __init__(self, path: Path, file: Any, name: str) -> None:
        self._path, self._file, self._name = path, file, name
        self._read: Any = None

    def _array(self) -> Any:
        if self._read is None:
            try:
                self._read = self._file[self._name]
            except _BROKEN as error:
                raise RecordedDataError(
                    f"{self._path}: {self._name} has no numbers that can be read: {error}"
                ) from error
        return self._read

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array().shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        dtype: np.dtype[np.generic] = self._array().dtype
        return dtype

    def __getitem__(self, index: Any) -> Any:
        return self._array()[index]


class FlatFile(RecordedSource):
    """Arrays of one row a step.

    Where no array has the observations after the steps, they are those of the next row: a step that is cut off (a timeout), and the
    last one, has none and is left out; the step before it is the last that is known of its episode, which is truncated there. After one that ends the episode nothing is to come: what was observed before it stands there.

    Args:
        path: where they are.
        arrays: they, by their path.
        close: closes the file.
    """

    def __init__(self, path: Path, arrays: Mapping[Key, Any], close: Callable[[], None]) -> None:
        super().__init__(path, close)
        self.names = [".".join(key) for key in arrays]
        self._arrays = arrays
        self._at: dict[Key, Key] = {}
        self._rows: Tensor | None = None

    def columns(self, wanted: list[Key], named: Mapping[Key, Key]) -> dict[Key, Column | str]:
        """The entries of these keys, or what to say of those that are missing."""
        keys = (*wanted, *(key[1:] for key in wanted), _TERMINATED, _TRUNCATED)
        at = self._at = {key: name for key in keys if (name := self._name(key, named)) is not None}
        followed = [key for key in wanted if key not in at and key[0] == "next" and key[1:] in at]
        flags = [at[key] for key in (_TERMINATED, _TRUNCATED) if key in at]
        read = {at[key] for key in wanted if key in at} | {at[key[1:]] for key in followed}
        self._check_lengths(read | {*flags} if followed or _DONE in wanted else read)
        if followed and len(flags) == 2:
            self._leave_out()
        found: dict[Key, Column | str] = {}
        for key in wanted:
            if key in at:
                left_out = key == _TRUNCATED and self._rows is not None
                found[key] = Column(torch.bool, (), self._cut) if left_out else self._column(at[key])
            elif key == _DONE and _TERMINATED in at:
                found[key] = Column(
                    torch.bool, (), lambda: self._chosen(self._flag(_TERMINATED)) | self._cut()
                )
            elif key not in followed:
                found[key] = _missing(key, named)
            elif self._rows is None:
                found[key] = _NO_NEXT
            else:
                found[key] = self._behind(at[key[1:]])
        return found

    def _name(self, key: Key, named: Mapping[Key, Key]) -> Key | None:
        """What an entry is called; None where nothing is called so."""
        names = [named[key]] if key in named else [*((one,) for one in _USUAL.get(key, ())), key]
        return next((one for one in names if one in self._arrays), None)

    def _check_lengths(self, names: set[Key]) -> None:
        lengths: dict[str, int] = {}
        for name in sorted(names):
            shape = self._arrays[name].shape
            if not shape:
                raise RecordedDataError(f"{self.path}: {'.'.join(name)} is one number, not one for each step")
            lengths[".".join(name)] = int(shape[0])
        if len({*lengths.values()}) > 1:
            said = ", ".join(f"{name} has {rows}" for name, rows in lengths.items())
            raise RecordedDataError(f"{self.path} holds arrays of different numbers of rows: {said}")
        self.frames = self._all = next(iter(lengths.values()), 0)

    def _column(self, name: Key) -> Column:
        array = self._arrays[name]
        dtype = dtype_of(array.dtype, f"{self.path}: {'.'.join(name)}")
        return Column(dtype, tuple(array.shape[1:]), lambda: self._chosen(tensor_of(array[:])))

    def _flag(self, key: Key) -> Tensor:
        """A flag of all rows; where there is none it is never raised."""
        if key not in self._at:
            return torch.zeros(self._all, dtype=torch.bool)
        name = self._at[key]
        found = tensor_of(self._arrays[name][:])
        if found.numel() != self._all:
            raise RecordedDataError(
                f"{self.path}: {'.'.join(name)} is {list(found.shape)}, not one flag a row"
            )
        return truth_values(found.reshape(-1), f"{self.path}: {'.'.join(name)}")

    def _cut(self) -> Tensor:
        """Where episodes are truncated: at the last step that is known of one, too, if others behind it are left out."""
        cut = self._chosen(self._flag(_TRUNCATED))
        if self._rows is None:
            return cut
        there = torch.zeros(self._all + 1, dtype=torch.bool)
        there[self._rows] = True
        return cut | ~(there[self._rows + 1] | self._flag(_TERMINATED)[self._rows])

    def _leave_out(self) -> None:
        """Leave out the steps after which nobody knows what was observed."""
        cut = self._flag(_TRUNCATED)
        cut[-1:] = True
        self._rows = (self._flag(_TERMINATED) | ~cut).nonzero().squeeze(-1)
        self.frames = len(self._rows)
        self.why_none = " whose next observation is known"

    def _chosen(self, whole: Tensor) -> Tensor:
        return whole if self._rows is None else whole[self._rows]

    def _behind(self, name: Key) -> Column:
        """What the next rows have, and where an episode ended the same rows."""
        column = self._column(name)

        def read() -> Tensor:
            assert self._rows is not None
            behind = self._rows + (~self._flag(_TERMINATED))[self._rows].long()
            return tensor_of(self._arrays[name][:])[behind]

        return Column(column.dtype, column.shape, read)


_NO_NEXT = " is missing: it is what the next row observes, where `terminals` and `timeouts` say which rows are of one episode"


def _missing(key: Key, named: Mapping[Key, Key]) -> str:
    if key in named:
        return f", which is called {'.'.join(named[key])} there, is missing"
    usual = " or ".join(_USUAL.get(key, ()))
    if not usual:
        return " is missing: `keys` says what it is called"
    return f" is missing: it is called {usual} in such files, and `keys` says otherwise"
