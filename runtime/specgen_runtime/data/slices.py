"""`SliceSampler`, `SliceSamplerWithoutReplacement`: parts of trajectories, whose rows follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.parts import positive
from specgen_runtime.data.samplers import Drawn, Sampler, SamplerWithoutReplacement, refuse_empty
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.trajectories import TRAJECTORY_NUMBERS, Ends, Trajectories, TrajectoryEnds
from specgen_runtime.envs.keys import show_key
from specgen_runtime.transforms.keys import normal_key, sibling
from specgen_runtime.typing import NestedKey

__all__ = ["SliceSampler", "SliceSamplerWithoutReplacement", "WholePartSampler"]


class SliceSampler(Sampler):
    """Draws parts of trajectories: one behind the other, in a batch of one dimension.

    A part never goes on in another trajectory, nor from the newest row to the oldest. The last row of each is marked as
    truncated (and done), so that value estimators end there, and its first one as an initial one.

    Args:
        num_slices: how many parts a sample has; each has `batch_size / num_slices` rows.
        slice_len: how many rows a part has, instead.
        end_key: where trajectories end. None: `("next", "done")`.
        end_keys: flags of which any is an end, instead; those that are not there are passed over.
        traj_key: the number of a row's trajectory; it ends where the number changes. None, without `end_key`:
            `("collector", "traj_ids")` or `"episode"`, if one of them is there.
        cache_values: no use: what was found out is kept until rows change.
        truncated_key: where the last row of each part is marked; None: nowhere.
        init_key: where the first row of each part is marked, if the entry is there; None: nowhere.
        strict_length: False: of trajectories that are shorter than a part all is taken, and samples have fewer rows.
        pad_output: whether such parts are filled up with copies of their last row; `("collector", "mask")` tells rows
            from copies.
        span: whether parts may begin before a trajectory or end behind it, so that the rows at its ends are as likely as
            others; what is outside is cut off. A number: by how many rows at most. A pair: before, behind.

    Attributes:
        traj_key: where the number of a row's trajectory was found; None: nowhere, or not looked for yet.

    Raises:
        TypeError: not exactly one of `num_slices` and `slice_len`.
        ValueError: both `end_key` and `end_keys`; `pad_output` with `strict_length`; a number that is not positive; at a sample: `batch_size` can't be
            divided; `span` is not shorter than a part.
        KeyError: at a sample: there is neither the number of a trajectory nor a flag of its end, of those that were named.
        RuntimeError: at a sample: all trajectories are shorter than a part.
    """

    def __init__(
        self,
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        pad_output: bool = False,
        span: bool | int | Sequence[bool | int] = False,
    ) -> None:
        if (num_slices is None) == (slice_len is None):
            raise TypeError(f"give num_slices or slice_len, got {num_slices} and {slice_len}")
        if end_key is not None and end_keys is not None:
            raise ValueError("give end_key or end_keys, not both")
        if pad_output and strict_length:
            raise ValueError("pad_output fills up short parts, and strict_length allows none")
        self.num_slices = None if num_slices is None else positive("num_slices", num_slices)
        self.slice_len = None if slice_len is None else positive("slice_len", slice_len)
        self.traj_key = None if traj_key is None else normal_key(traj_key)
        flags = ([] if end_key is None else [end_key]) if end_keys is None else end_keys
        numbers = [] if self.traj_key is None else [self.traj_key]
        if not (flags or numbers):
            flags, numbers = [("next", "done")], [*TRAJECTORY_NUMBERS]
        self._ends = TrajectoryEnds(type(self).__name__, numbers, [normal_key(key) for key in flags])
        self.truncated_key = None if truncated_key is None else normal_key(truncated_key)
        self.init_key = None if init_key is None else normal_key(init_key)
        self.strict_length = strict_length
        self.pad_output = pad_output
        self.span = span_pair(span)
        self._pieces: tuple[Ends, int, Trajectories] | None = None

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw parts; see `Sampler.sample`."""
        refuse_empty(storage)
        length, count = self._sizes(batch_size)
        pieces = self._trajectories(storage, length)
        which = torch.randint(len(pieces.length), (count,), device=pieces.length.device, generator=self._rng)
        return self._parts(storage, pieces, which, length)

    def sampleable(self, storage: Storage, batch_size: int) -> int:
        """How many parts there are; see `Sampler.sampleable`."""
        if not len(storage):
            return 0
        length, _ = self._sizes(batch_size)
        try:
            pieces = self._trajectories(storage, length)
        except (KeyError, RuntimeError):  # no trajectory is known, or long enough
            return 0
        return int((pieces.length - length + 1).clamp_min(1).sum())

    @property
    def cuts_parts(self) -> bool:
        """Whether samples may have parts that are shorter than others."""
        return not self.pad_output and (not self.strict_length or any(self.span))

    def _sizes(self, batch_size: int) -> tuple[int, int]:
        """How many rows a part has, and how many parts a sample."""
        divisor = self.num_slices or self.slice_len
        assert divisor is not None  # one of them is given
        if batch_size % divisor:
            what = "parts" if self.num_slices else "rows for each part"
            raise ValueError(f"a sample of {batch_size} rows can't be divided into {divisor} {what}")
        other = batch_size // divisor
        return (other, divisor) if self.num_slices else (divisor, other)

    # ---------------------------------------------------------- trajectories

    def _trajectories(self, storage: Storage, length: int) -> Trajectories:
        """The trajectories that parts of a length are drawn from, found once for each state of the rows."""
        ends = self._ends.of(storage)
        self.traj_key = self._ends.number
        if self._pieces is None or self._pieces[0] is not ends or self._pieces[1] != length:
            pieces = ends.pieces()
            self._pieces = (ends, length, _long_enough(pieces, length) if self.strict_length else pieces)
        return self._pieces[2]

    # ----------------------------------------------------------------- parts

    def _parts(
        self, storage: Storage, pieces: Trajectories, which: Tensor, length: int
    ) -> tuple[Drawn, dict[Any, Any]]:
        """The elements of a random part of each of some trajectories."""
        whole = pieces.length[which]
        wanted = whole.clamp_max(length)
        low = -slice_reach(self.span[0], wanted)
        # Behind the last start from which there is a part, as far as parts may reach beyond the trajectory.
        high = whole - wanted + 1 + slice_reach(self.span[1], wanted)
        drawn = torch.rand(len(which), device=whole.device, generator=self._rng)
        begin = (drawn * (high - low)).floor().long() + low
        stop = torch.minimum(begin + wanted, whole)
        begin = begin.clamp_min(0)
        first = pieces.start[which]
        first[:, 0] += begin
        return self._rows(storage, first, stop - begin, length)

    def _rows(
        self, storage: Storage, first: Tensor, lengths: Tensor, length: int
    ) -> tuple[Drawn, dict[Any, Any]]:
        """The elements of parts that begin with the elements `first`, `[parts, ndim]`, and have so many rows."""
        width = length if self.pad_output or bool((lengths == length).all()) else None
        part, offset, real = rows_of_parts(lengths, width)
        element = first[part]
        element[:, 0] += offset
        element[:, 0] %= refuse_empty(storage)[0]
        index: Drawn = element[:, 0] if storage.ndim == 1 else element.unbind(-1)
        ends = offset == lengths[part] - 1
        ends &= real
        return index, self._marks(storage, index, ends, (offset == 0) & real, real)

    def _marks(
        self, storage: Storage, index: Drawn, ends: Tensor, begins: Tensor, real: Tensor
    ) -> dict[Any, Any]:
        """What a sample says of its parts."""
        marks: dict[Any, Any] = {}
        if self.truncated_key is not None:
            last = ends.unsqueeze(-1)
            done, terminated = (sibling(self.truncated_key, name) for name in ("done", "terminated"))
            marks |= {self.truncated_key: last, done: last, terminated: torch.zeros_like(last)}
        asked_for = [*marks] if self.init_key is None else [*marks, self.init_key]
        stored = storage.entries(asked_for, index) if asked_for else {}
        if self.init_key in stored:
            marks[self.init_key] = begins.unsqueeze(-1)
        for key, flag in stored.items():
            if flag.dtype != torch.bool:
                raise TypeError(
                    f"{show_key(key)} is {flag.dtype}, and flags are marked in it: name a flag, or None"
                )
            marks[key] = flag | _fit(marks[key], flag)
        if self.pad_output:
            marks["collector", "mask"] = real
        return marks

    def _empty(self) -> None:
        self._ends.forget()
        self._pieces = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_pieces": None}

    def __repr__(self) -> str:
        size = f"num_slices={self.num_slices}" if self.num_slices else f"slice_len={self.slice_len}"
        return f"{type(self).__name__}({size}, strict_length={self.strict_length})"


class WholePartSampler(SliceSampler):
    """Draws as many whole parts as a sample is to have rows: for transforms that make one row of each part.

    Args:
        slice_len: how many rows a part has.
        options: further keywords of `SliceSampler`.
    """

    def __init__(self, *, slice_len: int, **options: Any) -> None:
        super().__init__(slice_len=slice_len, **options)
        self._length = slice_len

    def _sizes(self, batch_size: int) -> tuple[int, int]:
        return self._length, batch_size


class SliceSamplerWithoutReplacement(SliceSampler, SamplerWithoutReplacement):
    """Draws a random part of each trajectory once, before one of any trajectory is drawn again.

    Args:
        drop_last: whether a last sample with fewer parts is left out. The buffer needs a `batch_size` then.
        shuffle: False: trajectories in the order of the rows.
        options: keywords of `SliceSampler`.
    """

    def __init__(self, *, drop_last: bool = False, shuffle: bool = True, **options: Any) -> None:
        SliceSampler.__init__(self, **options)
        SamplerWithoutReplacement.__init__(self, drop_last, shuffle)

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw parts; see `Sampler.sample`."""
        refuse_empty(storage)
        length, count = self._sizes(batch_size)
        pieces = self._trajectories(storage, length)
        which = self._next(len(pieces.length), count, pieces.length.device)
        return self._parts(storage, pieces, which, length)

    def _empty(self) -> None:
        SliceSampler._empty(self)
        SamplerWithoutReplacement._empty(self)


def _long_enough(pieces: Trajectories, length: int) -> Trajectories:
    """The trajectories of at least some length."""
    enough = pieces.length >= length
    if enough.all():
        return pieces
    if not enough.any():
        raise RuntimeError(
            f"no trajectory of {length} rows: the longest has {int(pieces.length.max())}; strict_length=False takes shorter ones"
        )
    return Trajectories(*(value[enough] for value in pieces))


def span_pair(span: bool | int | Sequence[bool | int]) -> tuple[bool | int, bool | int]:
    """Of a `span`: how far parts may reach before their trajectory, and behind it."""
    pair = (span, span) if isinstance(span, int) else tuple(span)
    if len(pair) != 2 or any(isinstance(reach, str | float) or reach < 0 for reach in pair):
        raise ValueError(f"span is True, a number of rows, or two of these, before and behind; got {span!r}")
    return pair


def slice_reach(span: bool | int, length: Tensor) -> Tensor:
    """By how many rows parts may reach over an end of their trajectory."""
    if span is True:
        return length - 1
    if span >= int(length.max()):
        raise ValueError(
            f"parts of {int(length.max())} rows can't begin or end {span} rows outside of their trajectory"
        )
    return torch.minimum(torch.full_like(length, span), length - 1)


def rows_of_parts(lengths: Tensor, width: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """For each row of a sample its part, its place in it, and whether it is no copy of the part's last row.

    Args:
        lengths: how many rows the parts have.
        width: how many all of them are to have; None: as many as they have.
    """
    if width is None:
        part = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
        first = (lengths.cumsum(0) - lengths)[part]
        offset = torch.arange(len(part), device=lengths.device) - first
        return part, offset, torch.ones_like(part, dtype=torch.bool)
    part = torch.arange(len(lengths), device=lengths.device).repeat_interleave(width)
    offset = torch.arange(width, device=lengths.device).repeat(len(lengths))
    real = offset < lengths[part]
    return part, torch.minimum(offset, lengths[part] - 1), real


def _fit(flags: Tensor, like: Tensor) -> Tensor:
    """Flags `[n, 1]` in as many dimensions as an entry has."""
    return flags.reshape(-1, *[1] * (like.ndim - 1))
