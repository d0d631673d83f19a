"""Episodes that stand behind each other in the rows of a batch, as one packed sequence for torch's kernels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Trajectories(NamedTuple):
    """Where the steps of each trajectory are: in rows of steps, and in a packed sequence, the longest ones first.

    A packed sequence holds the first steps of all trajectories, then the second steps of those that have one, and so
    on, so that no step is computed for padding.
    """

    sizes: Tensor
    """How many trajectories have a step, for each number of steps; int64, on the CPU."""
    packed: Tensor
    """For each element of the packed sequence its index among the flattened rows."""
    rows: Tensor
    """For each element of the flattened rows its index in the packed sequence."""
    first: Tensor
    """The index of each trajectory's first step among the flattened rows."""
    last: Tensor
    """The index of each trajectory's last step among the flattened rows."""


def trajectories(starts: Tensor) -> Trajectories:
    """Where trajectories are in rows of steps; each row begins with one.

    Args:
        starts: bool, shape `(n_rows, time)`: whether a step is the first of a trajectory.
    """
    begins = starts.clone()
    begins[:, 0] = True
    first = begins.flatten().nonzero().squeeze(-1)
    lengths = torch.diff(first, append=first.new_full((1,), begins.numel()))
    lengths, order = lengths.sort(descending=True, stable=True)
    first = first[order]
    finished = torch.bincount(lengths).cumsum(0)[:-1]  # after 0, 1, … steps
    sizes = len(lengths) - finished
    step = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    offsets = sizes.cumsum(0) - sizes
    position = torch.arange(begins.numel(), device=sizes.device)
    packed = first[position - offsets[step]] + step
    rows = torch.empty_like(packed).scatter_(0, packed, position)
    return Trajectories(sizes.cpu(), packed, rows, first, first + lengths - 1)
