"""Carried values over many steps at once, bit by bit as step after step would give them: counters, sums, flags.

A step function takes what it carries from the step before. Over several steps it can be called once, on
tensors with time in front, if the carried values are known beforehand: for counters, running sums and extremes,
flags that stay raised and affine recurrences they are. Time may hold several episodes, one after another; each
begins with a value of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "affine_before",
    "all_before",
    "any_before",
    "counts_before",
    "kept_before",
    "maxima_before",
    "minima_before",
    "products_before",
    "shifted_before",
    "sums_before",
]


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
    rising = np.arange(0, by * sum(lengths), by).astype(begin.dtype, copy=False)
    rising = rising.reshape(-1, *(1,) * (begin.ndim - 1))
    counts = np.repeat(begin - rising[_starts(lengths)], lengths, axis=0)
    counts += rising
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
    return _accumulated(np.add, firsts, terms, lengths)


def maxima_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """The largest value so far as each step finds it; shapes as in `sums_before`. NaN stays NaN."""
    return _accumulated(np.maximum, firsts, terms, lengths)


def minima_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """The smallest value so far as each step finds it; shapes as in `sums_before`. NaN stays NaN."""
    return _accumulated(np.minimum, firsts, terms, lengths)


def any_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """Whether a flag was raised so far, as each step finds it; shapes as in `sums_before`, dtype bool."""
    return _accumulated(np.logical_or, firsts, terms, lengths)


def all_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """Whether a flag held at every step so far, as each step finds it; shapes as in `sums_before`, dtype bool."""
    return _accumulated(np.logical_and, firsts, terms, lengths)


def shifted_before(firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """What the step before gave, as each step finds it: `first`, `t0`, `t1`, ...; shapes as in `sums_before`."""
    return _accumulated(None, firsts, terms, lengths)


def kept_before(firsts: Tensor, lengths: Sequence[int]) -> Tensor:
    """What never changes in an episode, for each of its steps: `(sum of lengths, ...)`."""
    return firsts.repeat_interleave(torch.tensor(lengths, device=firsts.device), dim=0)


def products_before(firsts: Tensor, factors: Tensor, lengths: Sequence[int]) -> Tensor:
    """A running product as each step finds it; shapes as in `sums_before`."""
    return _accumulated(np.multiply, firsts, factors, lengths)


def affine_before(firsts: Tensor, factors: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """`c` as each step finds it, where a step makes it `factor * c + term`.

    Products are rounded before the sum, as two operations of torch do.

    Args:
        firsts: `(episodes, ...)`, the value when each episode begins.
        factors: `(steps, ...)`, of the same dtype.
        terms: `(steps, ...)`, of the same dtype.
        lengths: how many steps each episode has; `steps` in all.

    Returns:
        `(steps, ...)`.
    """
    if any(tensor.requires_grad for tensor in (firsts, factors, terms)):
        pairs = list(zip(factors, terms, strict=True))
        return _one_by_one(lambda value, pair: pair[0] * value + pair[1], firsts, pairs, lengths)
    begin, factor, term = (tensor.cpu().numpy() for tensor in (firsts, factors, terms))
    values = np.empty_like(term)
    at = 0
    for first, length in zip(begin, lengths, strict=True):
        value = first
        for step in range(at, at + length):
            values[step] = value
            value = factor[step] * value + term[step]
        at += length
    return torch.from_numpy(values).to(terms.device)


def _accumulated(join: np.ufunc | None, firsts: Tensor, terms: Tensor, lengths: Sequence[int]) -> Tensor:
    """The terms so far as each step finds them, each episode's first value in front; joined one by one."""
    if firsts.requires_grad or terms.requires_grad:  # what networks give
        return _one_by_one(_TORCH[join], firsts, list(terms), lengths)
    given, starts = terms.cpu().numpy(), _starts(lengths)
    values = np.empty_like(given)
    values[1:] = given[:-1]
    values[starts] = firsts.cpu().numpy()
    if join is not None:
        for start, length in zip(starts, lengths, strict=True):
            episode = values[start : start + length]
            join.accumulate(episode, 0, None, episode)
    return torch.from_numpy(values).to(terms.device)


def _starts(lengths: Sequence[int]) -> list[int]:
    """The first step of each episode."""
    return [0, *accumulate(lengths[:-1])]


def _one_by_one(
    join: Callable[[Tensor, Any], Tensor], firsts: Tensor, terms: Sequence[Any], lengths: Sequence[int]
) -> Tensor:
    """The same in torch, step after step, so that gradients flow."""
    found: list[Tensor] = []
    steps = iter(terms)
    for first, length in zip(firsts, lengths, strict=True):
        value = first
        for term in islice(steps, length):
            found.append(value)
            value = join(value, term)
    return torch.stack(found)


_TORCH: dict[np.ufunc | None, Callable[[Tensor, Tensor], Tensor]] = {
    None: lambda _, term: term,
    np.add: torch.add,
    np.multiply: torch.mul,
    np.maximum: torch.maximum,
    np.minimum: torch.minimum,
}
"""The functions of torch that do the same."""
