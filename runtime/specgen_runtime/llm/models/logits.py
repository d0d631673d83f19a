"""Logits of a few tokens: their precision, and what they are normalised by."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["are_ids", "full_precision", "normalisers_of", "without_infinities"]


def are_ids(values: Tensor, vocabulary: int) -> bool:
    """Whether all of some integers are ids of tokens: from 0 on, and less than `vocabulary`."""
    if not values.numel():
        return True
    lowest, highest = torch.stack(values.aminmax()).tolist()
    return bool(lowest >= 0 and highest < vocabulary)


def full_precision(logits: Tensor) -> Tensor:
    """Logits in at least float32: a log-softmax in bfloat16 is off by hundredths."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def normalisers_of(logits: Tensor, *, means: bool) -> tuple[Tensor, Tensor | None]:
    """Return the log-sum-exp of each row of logits, and the mean of these logits under their softmax.

    Args:
        logits: ``[rows, n]``, at least float32; they are overwritten. A logit may be -inf, and so may all of a row.
        means: whether the means are computed, too.

    Returns:
        ``[rows]`` each; the second one None without `means`.
    """
    # of a row of nothing but -inf the log-sum-exp is -inf, and not the NaN of their difference
    highest = logits.amax(-1, keepdim=True).clamp_min_(torch.finfo(logits.dtype).min)
    logits.sub_(highest)
    # their mean needs the shifted logits and the exponentials of them at once
    exponentials = logits.exp() if means else logits.exp_()
    total = exponentials.sum(-1)
    highest = highest.squeeze(-1)
    if not means:
        return total.log().add_(highest), None
    mean = (
        exponentials.mul_(without_infinities(logits)).sum(-1).div_(total.clamp_min(1))
    )  # less it is only where all are -inf
    return total.log().add_(highest), mean.add_(highest)


def without_infinities(logits: Tensor) -> Tensor:
    """Change logits in place so that those whose probability is 0 have a finite product with it."""
    return logits.clamp_min_(-1e4)  # exp(-1e4) is 0 in float64, too
