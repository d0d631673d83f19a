"""Where trajectories begin and end among the rows of a storage."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specgen_runtime.envs.keys import TRAJECTORY_KEY
from specgen_runtime.typing import NestedKey

__all__ = [
    "TRAJECTORY_NUMBERS",
    "Trajectories",
    "any_of_element",
    "ends_of_numbers",
    "ends_of_pieces",
    "find_trajectories",
]

TRAJECTORY_NUMBERS: tuple[NestedKey, ...] = (TRAJECTORY_KEY, "episode")
"""Where the number of a row's trajectory is looked for."""


class Trajectories(NamedTuple):
    """Pieces of trajectories whose rows follow each other.

    Attributes:
        start: the first element of each, int64 `[pieces, ndim]`; its first number is the row.
        stop: the last element of each, like `start`. Where it is before the first, the piece goes on in row 0.
        length: how many rows each has, `[pieces]`.
    """

    start: Tensor
    stop: Tensor
    length: Tensor


def ends_of_numbers(numbers: Tensor) -> Tensor:
    """Behind which rows another trajectory follows, of the number of each row's trajectory, `[rows, *batch]`.

    Row 0 follows the last one.
    """
    return numbers != numbers.roll(-1, 0)


def find_trajectories(end: Tensor, *, full: bool, last: int | None) -> Trajectories:
    """The pieces of trajectories, in the order of the batch, then of the rows of their ends.

    Args:
        end: behind which rows a trajectory ends, bool `[rows, *batch]`.
        full: whether row 0 follows the last one: the storage is full, and the newest rows are anywhere.
        last: the newest row; what stands behind it is older. None: not known.
    """
    rows = end.shape[0]
    end = ends_of_pieces(end, full=full, last=last)
    stop = end.transpose(0, -1).nonzero()
    stop[:, [0, -1]] = stop[:, [-1, 0]]
    # Each begins behind the end of the one before it at its place of the batch; the first behind the end of the last.
    same_place = (stop[1:, 1:] == stop[:-1, 1:]).all(1)
    first = torch.cat([torch.ones_like(same_place[:1]), ~same_place]) if len(stop) > 1 else stop[:, 0] >= 0
    place = first.cumsum(0) - 1
    last_at_place = torch.cat([first[1:], torch.ones_like(first[:1])]).nonzero()[:, 0]
    before = torch.where(first, stop[last_at_place[place], 0], stop[:, 0].roll(1))
    start = stop.clone()
    start[:, 0] = (before + 1) % rows
    return Trajectories(start, stop, (stop[:, 0] - start[:, 0]) % rows + 1)


def ends_of_pieces(end: Tensor, *, full: bool, last: int | None) -> Tensor:
    """Behind which rows a piece of a trajectory ends, of the arguments of `find_trajectories`; everywhere in the batch one does."""
    end = end.clone()
    if not full:
        end[-1] = True
    elif last is not None:
        end[last] = True
    else:
        end[-1] |= ~end.any(0)  # a trajectory without end
    return end


def any_of_element(flags: Tensor, ndim: int) -> Tensor:
    """Whether any of the flags of an element is set, `[rows, *batch]`, whose `ndim` dimensions count elements."""
    return flags if flags.ndim == ndim else flags.flatten(ndim).any(-1)
