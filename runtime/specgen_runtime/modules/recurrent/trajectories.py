"""Trajectories that stand behind each other in the rows of a batch, cut into segments of equal lengths."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Segment(NamedTuple):
    """As many steps of several trajectories, each behind those of the segments before."""

    which: Tensor
    """The trajectories that it is part of, `(n,)`."""
    steps: Tensor
    """The indices of its steps among the flattened rows, `(n, length)`."""


class Trajectories(NamedTuple):
    """Where trajectories begin and end among the flattened rows, and the segments of which they consist."""

    first: Tensor
    last: Tensor
    segments: list[Segment]


def trajectories(starts: Tensor, whole: bool = False) -> Trajectories:
    """Cuts trajectories of any lengths into segments whose lengths are powers of two.

    A trajectory of 13 steps has segments of 8, 4 and 1. Segments of one length are computed together, so that there are
    few calls of a network, for no more steps than the data have, and each gives the true state at its end.

    Args:
        starts: bool, shape `(n_rows, time)`: whether a step is the first of a trajectory; that of a row always is.
        whole: don't cut them, as networks of both directions ask: a segment for each length that there is.
    """
    begins = starts.clone()
    begins[:, 0] = True
    first = begins.flatten().nonzero().squeeze(-1)
    lengths = torch.diff(first, append=first.new_full((1,), begins.numel()))
    if whole:
        parts = [(length, lengths == length) for length in sorted(set(lengths.tolist()))]
    else:
        powers = [1 << i for i in reversed(range(int(lengths.max()).bit_length()))]
        parts = [(length, lengths.bitwise_and(length) != 0) for length in powers]
    segments = []
    position = first
    for length, has in parts:
        which = has.nonzero().squeeze(-1)
        if len(which):
            steps = torch.arange(length, device=starts.device)
            segments.append(Segment(which, position[which].unsqueeze(-1) + steps))
            position = position + length * has
    return Trajectories(first, first + lengths - 1, segments)
