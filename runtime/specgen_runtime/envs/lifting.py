"""Carries over a whole stretch of steps at once, bit by bit as step after step would give them.

A step function takes what it carries from the step before. Over a stretch of steps it can be called once, on
tensors with time in front, if the carried values are known beforehand: for counters and running sums they are.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["counts_before", "sums_before"]


def counts_before(start: Tensor, steps: int, by: int = 1) -> Tensor:
    """A counter as each of some steps finds it: `start`, `start + by`, `start + 2 * by`, ...

    Args:
        start: integers of shape `(...)`.
        steps: how many steps.
        by: added at each step.

    Returns:
        `(steps, ...)`, of the dtype of `start`.
    """
    first = start.cpu().numpy()
    counts = np.arange(0, by * steps, by, dtype=first.dtype).reshape(steps, *(1,) * first.ndim)
    return torch.from_numpy(counts + first).to(start.device)


def sums_before(start: Tensor, terms: Tensor) -> Tensor:
    """A running sum as each step finds it: `start`, `start + t0`, `(start + t0) + t1`, ...

    The terms are added in their order and in their dtype. (`torch.cumsum` keeps floating-point sums in a wider
    type and so rounds differently; NumPy's `accumulate` adds one by one.)

    Args:
        start: `(...)`.
        terms: `(steps, ...)`, of the same dtype.

    Returns:
        `(steps, ...)`; the last term is not in it.
    """
    column = np.concatenate((start.unsqueeze(0).cpu().numpy(), terms[:-1].cpu().numpy()))
    return torch.from_numpy(np.add.accumulate(column, axis=0)).to(terms.device)
