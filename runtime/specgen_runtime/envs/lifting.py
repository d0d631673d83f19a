"""Carries over a whole stretch of steps at once, bit by bit as step after step would give them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["running_count", "running_sum"]


def running_count(start: Tensor, steps: int, by: int = 1) -> Tensor:
    """A counter over `steps` steps: `start + by`, `start + 2 * by`, ...

    Args:
        start: integers of shape `(...)`.
        steps: how many steps.
        by: added at each step.

    Returns:
        `(steps, ...)`, of the dtype of `start`.
    """
    counts = torch.arange(by, by * steps + by, by, dtype=start.dtype, device=start.device)
    return counts.reshape(steps, *(1,) * start.ndim) + start


def running_sum(start: Tensor, terms: Tensor) -> Tensor:
    """Sums over time, added in their order in the dtype of `terms`: `start + t0`, `(start + t0) + t1`, ...

    `torch.cumsum` keeps floating-point sums in a wider type and so rounds differently; NumPy's `accumulate`
    adds one by one.

    Args:
        start: `(...)`.
        terms: `(steps, ...)`, of the same dtype.

    Returns:
        `(steps, ...)`.
    """
    columns = torch.cat((start.unsqueeze(0), terms)).cpu().numpy()
    return torch.from_numpy(np.add.accumulate(columns, axis=0)[1:]).to(terms.device)
