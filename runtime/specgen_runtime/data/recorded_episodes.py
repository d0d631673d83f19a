"""Episodes in an HDF5 file, as Minari keeps them: a group each, whose observations are one more than the actions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.recorded_columns import (
    Column,
    Key,
    RecordedDataError,
    RecordedSource,
    dtype_of,
    tensor_of,
)
from specgen_runtime.data.recorded_flat import hdf5_arrays
from specgen_runtime.envs.keys import TRAJECTORY_KEY

__all__ = ["EpisodeFile"]

_FLAGS = {("next", "terminated"): "terminations", ("next", "truncated"): "truncations"}
_DONE = ("next", "done")
_NUMBER = TRAJECTORY_KEY


class EpisodeFile(RecordedSource):
    """A data set of Minari.

    The observation after a step is that of the row behind it; of the last step of an episode, too, which is what the one further row is for.
    Entries of a Dict are found by their own names, those of a Tuple by the ones that Minari gives them. `("collector", "traj_ids")` is the number
    of a step's episode, also of one whose recording ended with neither flag.

    Args:
        path: the file.
        file: it, open.
    """

    def __init__(self, path: Path, file: Any) -> None:
        super().__init__(path, file.close)
        numbered = {name: name.removeprefix("episode_") for name in file if name.startswith("episode_")}
        order = sorted(
            (name for name, number in numbered.items() if number.isdecimal()),
            key=lambda name: int(numbered[name]),
        )
        self._episodes = {name: self._group(file, name) for name in order}
        self._lengths = {name: self._length(name) for name in order}
        self.frames = sum(self._lengths.values())
        self._known = set(next(iter(self._episodes.values()), ()))
        self.names = [".".join(key) for key in self._known]

    def columns(self, wanted: list[Key], named: Mapping[Key, Key]) -> dict[Key, Column | str]:
        """The entries of these keys, or what to say of those that are missing."""
        found: dict[Key, Column | str] = {}
        for key in wanted:
            if key == _DONE and key not in named:
                found[key] = self._done(named)
                continue
            if key == _NUMBER and key not in named:
                found[key] = Column(torch.int64, (), self._numbers)
                continue
            name, later = self._source(key, named)
            if name in self._known:
                found[key] = self._column(name, later=later)
            elif key in named:
                found[key] = f", which is called {'.'.join(named[key])} there, is missing"
            else:
                found[key] = (
                    f" is missing: it is called {'.'.join(name)} in such files, and `keys` says otherwise"
                )
        return found

    def _source(self, key: Key, named: Mapping[Key, Key]) -> tuple[Key, bool]:
        """What an entry is called, and whether it is the one of the next row."""
        if key in named:
            return named[key], False
        if key == ("next", "reward"):
            return ("rewards",), False
        if key in _FLAGS:
            return (_FLAGS[key],), False
        if key[0] == "next":
            name, _ = self._source(key[1:], named)
            return name, name[0] == "observations" or key[1:] in named
        for group in ("observations", "actions"):
            if (group, *key) in self._known:
                return (group, *key), False
        usual: dict[Key, Key] = {("action",): ("actions",), ("observation",): ("observations",)}
        return usual.get(key, ("observations", *key)), False

    def _group(self, file: Any, name: str) -> dict[Key, Any]:
        group = file.get(name)
        if not hasattr(group, "items"):
            raise RecordedDataError(f"{self.path}: {name} must be a group of arrays, got {group!r}")
        return hdf5_arrays(group)

    def _length(self, name: str) -> int:
        arrays = self._episodes[name]
        for flag in (("rewards",), ("terminations",), ("truncations",)):
            if flag in arrays and arrays[flag].shape:
                return int(arrays[flag].shape[0])
        raise RecordedDataError(
            f"{self.path}: {name} has no `rewards` of one number a step, which say how many steps it has"
        )

    def _column(self, name: Key, *, later: bool) -> Column:
        """An entry of all episodes, of the rows behind if `later`."""
        said = ".".join(name)
        first: tuple[Any, tuple[int, ...]] | None = None
        observed = name[0] == "observations" or later
        for episode, arrays in self._episodes.items():
            if name not in arrays:
                raise RecordedDataError(f"{self.path}: {episode} has no {said}, which others have")
            array, steps = arrays[name], self._lengths[episode]
            rows = array.shape[0] if array.shape else 0
            if rows not in ((steps + 1,) if observed else (steps, steps + 1)):
                wanted = f"{steps + 1}, one more than steps" if observed else f"{steps}, one a step"
                raise RecordedDataError(f"{self.path}: {said} of {episode} has {rows} rows, not {wanted}")
            here = array.dtype, tuple(array.shape[1:])
            if first is not None and here != first:
                raise RecordedDataError(
                    f"{self.path}: {said} of {episode} is {here[0]} {list(here[1])}, of others {first[0]} {list(first[1])}"
                )
            first = here
        assert first is not None
        dtype, shape = dtype_of(first[0], f"{self.path}: {said}"), first[1]

        def read() -> Tensor:
            whole = torch.empty((self.frames, *shape), dtype=dtype)
            at, offset = 0, int(later)
            for episode, arrays in self._episodes.items():
                steps = self._lengths[episode]
                whole[at : at + steps] = tensor_of(arrays[name][offset : offset + steps])
                at += steps
            return whole

        return Column(dtype, shape, read)

    def _numbers(self) -> Tensor:
        """The number of the episode of each step, which tells them apart where the file's flags end none."""
        numbers = torch.tensor([int(name.removeprefix("episode_")) for name in self._episodes])
        return numbers.repeat_interleave(torch.tensor(list(self._lengths.values())))

    def _done(self, named: Mapping[Key, Key]) -> Column | str:
        """Where episodes are over, by either flag."""
        flags = [named.get(key, (name,)) for key, name in _FLAGS.items()]
        if missing := [".".join(name) for name in flags if name not in self._known]:
            return f" is missing: it follows from {' and '.join(missing)}"
        terminated, truncated = (self._column(name, later=False) for name in flags)
        return Column(
            torch.bool, terminated.shape, lambda: (terminated.read() != 0) | (truncated.read() != 0)
        )
