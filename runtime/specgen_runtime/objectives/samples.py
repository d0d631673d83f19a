"""Statistics over the samples of a batch, such as the mean and deviation of advantages, without those that a mask leaves out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tensordict.utils import expand_as_right
from torch import Tensor


def sample_count(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """How many samples there are.

    Args:
        x: any dtype, one value of each sample.
        mask: bool, of the leading dimensions of ``x``: which samples count; all without it.
        keep: dimensions of ``x``, as it is stored with a trailing 1, each of whose entries counts by itself.

    Returns:
        int64, without dimensions; of the shape of ``x`` with ``keep``.
    """
    if mask is None:
        return torch.full(x.shape if keep else (), _number(x, keep), dtype=torch.int64, device=x.device)
    return _result(_of(x, mask).sum(_dims(x, keep), keepdim=bool(keep)), x, keep)


def sample_sum(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The sum over the samples; see `sample_mean`."""
    return _result(_masked(x, mask, 0.0).sum(_dims(x, keep), keepdim=bool(keep)), x, keep)


def sample_mean(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The mean over the samples.

    Args:
        x: floating point, one number of each sample.
        mask: bool, of the leading dimensions of ``x``: which samples count; all without it.
        keep: dimensions of ``x``, as it is stored with a trailing 1, of whose entries each has its own: -2 is the last
            one of ``x``.

    Returns:
        In the dtype of ``x``, without dimensions; of the shape of ``x`` with ``keep``. 0 of no samples.
    """
    if mask is None and not keep:
        return x.mean() if x.numel() else x.sum()
    dims = _dims(x, keep)
    if mask is None:
        return _result(x.mean(dims, keepdim=True), x, keep)
    number = _of(x, mask).sum(dims, keepdim=bool(keep)).clamp_min(1)
    return _result(_masked(x, mask, 0.0).sum(dims, keepdim=bool(keep)) / number, x, keep)


def sample_var(
    x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = (), *, correction: int = 0
) -> Tensor:
    """The mean squared distance from the mean; see `sample_mean`.

    Args:
        x: floating point, one number of each sample.
        mask: which samples count.
        keep: dimensions of whose entries each has its own.
        correction: by how much less than their number the sum is divided; the variance of one sample is 0.
    """
    if not x.numel():
        return sample_sum(x, None, keep)
    if mask is None:
        correction = min(correction, max(_number(x, keep) - 1, 0))
        if not keep:
            return x.var(correction=correction)
        return _result(x.var(_dims(x, keep), correction=correction, keepdim=True), x, keep)
    dims = _dims(x, keep)
    number_of = (_of(x, mask).sum(dims, keepdim=True) - correction).clamp_min(1)
    centre = _masked(x, mask, 0.0).sum(dims, keepdim=True) / _of(x, mask).sum(dims, keepdim=True).clamp_min(1)
    # selected before the square: the derivative of the square of NaN is NaN, even times 0
    squares = _masked(x - centre, mask, 0.0).square()
    return _result(squares.sum(dims, keepdim=True) / number_of, x, keep)


def sample_std(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The standard deviation, as these samples estimate it (unbiased): the root of `sample_var` with a correction of 1.

    Samples that are all alike get no gradient, as of `torch.std`.
    """
    variance = sample_var(x, mask, keep, correction=1)
    if not variance.requires_grad:
        return variance.sqrt()
    alike = variance == 0  # the derivative of the root of 0 is infinite, and NaN times 0
    return variance.masked_fill(alike, 1.0).sqrt().masked_fill(alike, 0.0)


def sample_max(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The largest number of the samples, negative infinity of none; see `sample_mean`."""
    x_of = _masked(x, mask, -math.inf)
    if not x_of.numel():
        return sample_sum(x, None, keep) - math.inf
    return _result(x_of.amax(_dims(x, keep), keepdim=True), x, keep) if keep else x_of.amax()


def sample_logsumexp(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The logarithm of the sum of the exponentials of the samples; see `sample_mean`."""
    x_of = _masked(x, mask, -math.inf)
    return (
        _result(x_of.logsumexp(_dims(x, keep), keepdim=True), x, keep)
        if keep
        else (x_of if x_of.ndim == 1 else x_of.flatten()).logsumexp(0)
    )


def sample_standardized(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """The distance of each sample from their mean, in their standard deviations, which are 1e-6 at least.

    Args:
        x: as of `sample_mean`.
        mask: likewise.
        keep: likewise.

    Returns:
        Like ``x``: ``x`` itself where one sample counts, or none. Any numbers stand for samples that don't count.
    """
    if mask is None and _number(x, keep) < 2:
        return x
    deviation, centre = sample_std(x, mask, keep), sample_mean(x, mask, keep)
    standardized = (_masked(x, mask, 0.0) - centre) / deviation.clamp(min=1e-6)
    return standardized if mask is None else torch.where(sample_count(x, mask, keep) > 1, standardized, x)


def sample_effective_fraction(x: Tensor, mask: Tensor | None = None, keep: Sequence[int] = ()) -> Tensor:
    """How many samples of equal weight tell as much as these (Kish 1965), as a fraction of their number.

    That is 1 divided by the sum of the squares of their shares in the sum of all weights, and by their number.

    Args:
        x: the logarithms of the weights; as of `sample_mean`.
        mask: as of `sample_mean`.
        keep: likewise.

    Returns:
        As `sample_mean`, in [0, 1]; not finite of no samples.
    """
    x_of = _masked(x, mask, -math.inf)
    if keep:
        dims = _dims(x, keep)
        shares = (x_of - x_of.logsumexp(dims, keepdim=True)).exp()
        number = _number(x, keep) if mask is None else _of(x, mask).sum(dims, keepdim=True)
        return _result((shares.square().sum(dims, keepdim=True) * number).reciprocal(), x, keep)
    shares = (x_of if x_of.ndim == 1 else x_of.flatten()).softmax(0)
    return (shares.dot(shares) * (x.numel() if mask is None else _of(x, mask).sum())).reciprocal()


def _dims(x: Tensor, keep: Sequence[int]) -> list[int]:
    """The dimensions that are reduced; those of the stored form of ``x`` have a 1 behind them."""
    kept = {dim % (x.ndim + 1) for dim in keep}
    return [dim for dim in range(x.ndim) if dim not in kept]


def _number(x: Tensor, keep: Sequence[int]) -> int:
    """How many samples there are without a mask."""
    return math.prod([x.shape[dim] for dim in _dims(x, keep)]) if keep else x.numel()


def _of(x: Tensor, mask: Tensor) -> Tensor:
    if mask.ndim > x.ndim:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not fit samples of shape {tuple(x.shape)}: there may be one "
            "truth value for each sample"
        )
    expanded: Tensor = expand_as_right(mask, x)
    return expanded


def _masked(x: Tensor, mask: Tensor | None, value: float) -> Tensor:
    # Selected, not multiplied: what a mask leaves out may be NaN.
    return x if mask is None else x.masked_fill(~_of(x, mask), value)


def _result(reduced: Tensor, x: Tensor, keep: Sequence[int]) -> Tensor:
    if keep:
        return reduced.expand_as(x)
    return reduced.reshape(()) if reduced.ndim else reduced
