"""Where trajectories begin and end among the rows of a storage."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specgen_runtime.data.storage import Storage
from specgen_runtime.envs.keys import TRAJECTORY_KEY, MissingKeyError, show_key
from specgen_runtime.typing import NestedKey

__all__ = ["TRAJECTORY_NUMBERS", "Ends", "Trajectories", "TrajectoryEnds"]

TRAJECTORY_NUMBERS: tuple[NestedKey, ...] = (TRAJECTORY_KEY, "episode")
"""Where the number of a row's trajectory is looked for."""


class Trajectories(NamedTuple):
    """Pieces of trajectories whose rows follow each other.

    Attributes:
        start: the first element of each, int64 `[pieces, ndim]`; its first number is the row.
        length: how many rows each has, `[pieces]`. Behind the last row a piece goes on in row 0.
    """

    start: Tensor
    length: Tensor


class Ends(NamedTuple):
    """Behind which elements a piece of a trajectory ends: at each place of the batch behind one at least.

    Attributes:
        positions: of the elements, in order, int64: the place in the batch, counted through from the last dimension, times the
            number of rows, plus the row.
        sizes: how many elements there are, `[rows, *batch]`.
    """

    positions: Tensor
    sizes: torch.Size

    def pieces(self) -> Trajectories:
        """All pieces, in the order of the batch, then of the rows of their ends."""
        rows = self.sizes[0]
        stop = self.positions % rows
        # Each begins behind the end of the one before it at its place; the first behind the end of the last.
        before = stop.roll(1)
        where: tuple[Tensor, ...] = ()
        if len(self.sizes) > 1:
            batch = (self.sizes[-1], *self.sizes[1:-1])
            first = self._first_at(torch.arange(self.sizes[1:].numel() + 1, device=stop.device))
            before[first[:-1]] = stop[first[1:] - 1]
            last, *others = torch.unravel_index(self.positions // rows, batch)
            where = (*others, last)
        begin = (before + 1) % rows
        return Trajectories(torch.stack([begin, *where], -1), (stop - begin) % rows + 1)

    def piece_of(self, elements: Tensor) -> tuple[Tensor, Tensor]:
        """The piece of each element `[n, ndim]`: its first row, and how many it has, int64 `[n]`."""
        rows = self.sizes[0]
        place = torch.zeros_like(elements[:, 0])
        for dim in (-1, *range(1, len(self.sizes) - 1)) if len(self.sizes) > 1 else ():
            place = place * self.sizes[dim] + elements[:, dim]
        behind = torch.searchsorted(self.positions, place * rows + elements[:, 0])
        first, stop = self._first_at(place), self._first_at(place + 1)
        # Behind the last end at its place a piece goes on in row 0, and ends where the first one there does.
        last = self.positions[torch.where(behind == stop, first, behind)] % rows
        before = self.positions[torch.where(behind == first, stop, behind) - 1] % rows
        begin = (before + 1) % rows
        return begin, (last - begin) % rows + 1

    def _first_at(self, place: Tensor) -> Tensor:
        """Which of the positions is the first at places of the batch."""
        return torch.searchsorted(self.positions, place * self.sizes[0])


class TrajectoryEnds:
    """Keeps where trajectories end in a storage: what is written is looked at, and no other rows.

    A trajectory ends at a flag, where the number of the next row's trajectory is another, and behind the newest row.

    Args:
        owner: who looks for trajectories, for messages.
        numbers: entries that are the number of a row's trajectory.
        flags: entries of which any, in any of an element's values, is set at an end.
        both: whether all of the numbers and flags that are there count, and there has to be a flag. Otherwise the first of the
            numbers counts alone, or where there is none the flags.

    Attributes:
        number: the number that counts alone; None: there is none, or it was not looked for yet.
    """

    def __init__(
        self, owner: str, numbers: Sequence[NestedKey], flags: Sequence[NestedKey], *, both: bool = False
    ) -> None:
        self.number: NestedKey | None = None
        self._owner = owner
        self._numbers = tuple(numbers)
        self._flags = tuple(flags)
        self._both = both
        self.forget()

    def forget(self) -> None:
        """Look at all rows the next time."""
        self._storage: Storage | None = None
        self._revision = 0
        self._sizes = torch.Size()
        # Elements behind which a trajectory ends, in order: the row times the places of the batch, plus the place.
        self._found = torch.zeros(0, dtype=torch.int64)
        self._ends: Ends | None = None

    def __getstate__(self) -> dict[str, Any]:
        nothing = TrajectoryEnds(self._owner, self._numbers, self._flags, both=self._both).__dict__
        return {**nothing, "number": self.number}

    def of(self, storage: Storage) -> Ends:
        """The ends in a storage that is not empty; the same object until it changes.

        Raises:
            KeyError: its rows have none of the entries.
        """
        if self._ends is not None and self._storage is storage and self._revision == storage.revision:
            return self._ends
        sizes = storage.shape
        assert sizes is not None  # it is not empty
        changed = storage.changes_since(self._revision) if self._storage is storage else None
        if changed is None or sizes[1:] != self._sizes[1:]:
            self.forget()
            changed = [(0, sizes[0])]
        self._sizes = sizes
        for first, stop in changed:
            # Also the row before: where it is the last one, row 0 follows.
            for start, behind in [(first - 1, stop)] if first else [(0, stop), (sizes[0] - 1, sizes[0])]:
                self._found = self._with(start, behind, self._found_in(storage, start, behind))
        self._storage, self._revision = storage, storage.revision
        self._ends = Ends(self._positions(storage), sizes)
        return self._ends

    def _positions(self, storage: Storage) -> Tensor:
        """All ends as of `Ends`: also behind the newest rows, and of a trajectory without end."""
        rows, places = self._sizes[0], self._sizes[1:].numel()
        newest = storage._last_cursor if storage.is_full else rows - 1
        place = torch.arange(places, device=self._found.device)
        if newest is None:  # not known: row 0 follows the last one, which is an end where there are no others
            there = torch.zeros_like(place, dtype=torch.bool)
            there[self._found % places] = True
            last = self._found[torch.searchsorted(self._found, (rows - 1) * places) :] % places
            newest, place = rows - 1, torch.cat([last, place[~there]]).sort().values
        found = self._with(newest, newest + 1, newest * places + place)
        return found if places == 1 else (found % places * rows + found // places).sort().values

    def _with(self, start: int, stop: int, new: Tensor) -> Tensor:
        """What was found, with new elements in place of those of some rows."""
        places = self._sizes[1:].numel()
        bounds = torch.tensor([start * places, stop * places], device=self._found.device)
        first, behind = torch.searchsorted(self._found, bounds).tolist()
        return torch.cat([self._found[:first].to(new.device), new, self._found[behind:].to(new.device)])

    def _found_in(self, storage: Storage, start: int, stop: int) -> Tensor:
        """The elements of some rows behind which a trajectory ends."""
        end = self._is_end(storage, start, stop)
        end = end if end.ndim == 1 else end.movedim(-1, 1).flatten()
        return end.nonzero().squeeze(-1) + start * self._sizes[1:].numel()

    def _is_end(self, storage: Storage, start: int, stop: int) -> Tensor:
        """Behind which of some rows a trajectory ends, bool `[rows, *batch]`."""
        entries = storage.entries((*self._numbers, *self._flags), slice(start, stop))
        numbers = [key for key in self._numbers if key in entries]
        flags = [key for key in self._flags if key in entries]
        if not (flags if self._both else flags or numbers):
            looked_for = self._flags if self._both else (*self._numbers, *self._flags)
            raise MissingKeyError(
                f"{self._owner} finds no trajectories: the replay buffer has none of {', '.join(map(show_key, looked_for))};"
                + (" give end_key" if self._both else " give traj_key or end_key")
            )
        if not self._both:
            self.number = numbers[0] if numbers else None
            numbers, flags = numbers[:1], [] if numbers else flags
        for key in flags:
            if entries[key].is_floating_point():
                raise TypeError(
                    f"{show_key(key)} is {entries[key].dtype}, and no flag that says where trajectories end"
                )
        ends = [entries[key] for key in flags]
        if numbers:
            after = storage.entries(numbers, slice(stop, stop + 1) if stop < self._sizes[0] else slice(0, 1))
            ends += [entries[key] != torch.cat([entries[key][1:], after[key]]) for key in numbers]
        return functools.reduce(torch.logical_or, [_any_of_element(end, storage.ndim) for end in ends])


def _any_of_element(flags: Tensor, ndim: int) -> Tensor:
    """Whether any of the flags of an element is set, `[rows, *batch]`, whose `ndim` dimensions count elements."""
    return flags if flags.ndim == ndim else flags.flatten(ndim).any(-1)
