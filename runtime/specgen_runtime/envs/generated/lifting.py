"""Counters and running sums over many steps at once, bit by bit as step after step would give them.

A step function takes what it carries from the step before. Over a stretch of steps it can be called once, on
tensors with time in front, if the carried values are known beforehand: for counters and running sums they are.
Time may hold several episodes, one after another; each begins with a value of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["counts_before", "sums_before"]


def counts_before(firsts: Tensor, lengths: Sequence[int], by: int = 1) -> Tensor:
    """A counter as each step finds it: `first`, `first + by`, `first + 2 * by`, ... in each episode.

    Args:
        firsts: integers of shape `(episodes, ...)`, the counter when each episode begins.
        lengths: how many steps each episode has.
        by: added at each step.

    Returns:
        `(sum of lengths, ...)`, of the dtype of `firsts`.
    """
    begin = firsts.cpu().numpy()
    steps = np.concatenate([np.arange(0, by * length, by, dtype=begin.dtype) for length in lengths])
    counts = np.repeat(begin, lengths, axis=0) + steps.reshape(-1, *(1,) * (begin.ndim - 1))
    return torch.from_numpy(counts).to(firsts.device)


def sums_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """A running sum as each step finds it: `first`, `first + t0`, `(first + t0) + t1`, ... in each episode.

    The terms are added in their order and in their dtype. (`torch.cumsum` keeps floating-point sums in a wider
    type and so rounds differently; NumPy's `accumulate` adds one by one.)

    Args:
        firsts: `(episodes, ...)`, the sum when each episode begins.
        terms: `(steps, ...)`, of the same dtype.
        lengths: how many steps each episode has; `steps` in all.

    Returns:
        `(steps, ...)`; an episode's last term is not in it.
    """
    begin, sums = firsts.cpu().numpy(), terms.cpu().numpy().copy()
    at = 0
    for first, length in zip(begin, lengths, strict=True):
        episode = sums[at : at + length]
        episode[1:] = episode[:-1].copy()
        episode[0] = first
        np.add.accumulate(episode, axis=0, out=episode)
        at += length
    return torch.from_numpy(sums).to(terms.device)
