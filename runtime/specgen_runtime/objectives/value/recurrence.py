"""`discounted_sums`: the recurrence behind all value estimators, along time, in few passes over the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_MOST_DOUBLED = 2**18
"""More entries than these are halved first: that costs less arithmetic, and reads memory in strides."""

_MOST_DOUBLED_LONG = 2**16
"""The same for sequences of more than `_LONG` steps, which take more doublings."""

_LONG = 512


def discounted_sums(terms: Tensor, decay: Tensor, dim: int) -> Tensor:
    """``x[t] = terms[t] + decay[t] * x[t + 1]`` along ``dim``, with nothing behind the last step.

    Differentiable in both, any number of times; memory is a small multiple of the inputs', with gradients too.
    Steps whose decay is zero end a trajectory: several may stand in a row, and what is not a number, or infinite, in one of
    them does not reach the others.

    Args:
        terms: floating point, any shape.
        decay: the same shape and dtype, within [-1, 1], zero at the last step.
        dim: time, counted from the front.

    Returns:
        The sums, in the shape of ``terms``.
    """
    length = terms.shape[dim]
    if length < 2:
        return terms.clone()
    # Whole rows are put behind each other: the zero at the end of each keeps them apart. A step follows another
    # one `inner` entries later, so that every pass below is over contiguous memory.
    inner = terms[(0,) * (dim + 1)].numel() if terms.numel() else 1
    rows = (terms.reshape(-1, inner), decay.reshape(-1, inner))
    if torch.compiler.is_compiling():
        return _functional_doubling(*rows, length).reshape(terms.shape)
    sums: Tensor = _DiscountedSums.apply(*rows, length)  # type: ignore[no-untyped-call]
    return sums.reshape(terms.shape)


class _DiscountedSums(torch.autograd.Function):
    """`discounted_sums` of rows ``[steps, inner]``; its backward pass is the same recurrence, forwards in time."""

    @staticmethod
    def forward(terms: Tensor, decay: Tensor, length: int) -> Tensor:
        if terms.is_cpu:
            sums = _halving(terms, decay, length)
            if not sums.sum().isnan():
                return sums
        # elsewhere asking for the sum would wait for the device
        return _functional_doubling(terms, decay, length)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        _, decay, ctx.length = inputs
        ctx.save_for_backward(decay, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        decay, sums = ctx.saved_tensors
        # The gradient flows from each step to the next one: y[t] = grad[t] + decay[t - 1] * y[t - 1].
        reached = _DiscountedSums.apply(grads[0].flip(0), decay.roll(1, 0).flip(0), ctx.length).flip(0)  # type: ignore[no-untyped-call]
        to_decay = None
        if ctx.needs_input_grad[1]:
            following = torch.cat([sums[1:], torch.zeros_like(sums[:1])])
            to_decay = reached * _of_trajectory(following, decay)
        return (reached if ctx.needs_input_grad[0] else None), to_decay, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], terms: Tensor, decay: Tensor, length: int
    ) -> tuple[Tensor, int]:
        """A mapped dimension is more rows behind each other."""
        size = info.batch_size
        rows = [
            tensor.expand(size, *tensor.shape) if where is None else tensor.movedim(where, 0)
            for tensor, where in zip((terms, decay), in_dims[:2], strict=True)
        ]
        sums = _DiscountedSums.apply(*(row.flatten(0, 1) for row in rows), length)  # type: ignore[no-untyped-call]
        return sums.reshape(size, -1, *sums.shape[1:]), 0


def _halving(terms: Tensor, decay: Tensor, length: int) -> Tensor:
    """Long sequences: each two steps become one, until few are left; then their halves are filled in."""
    steps = terms.shape[0]
    if terms.numel() <= (_MOST_DOUBLED_LONG if length > _LONG else _MOST_DOUBLED) or length <= 4:
        return _doubling(terms, decay, length)
    pairs = steps // 2
    terms2, decay2 = (_in_pairs(tensor) for tensor in (terms, decay))
    shorter = torch.addcmul(terms2[:, 0], decay2[:, 0], terms2[:, 1]), decay2[:, 0] * decay2[:, 1]
    if steps % 2:
        shorter = torch.cat([shorter[0], terms[-1:]]), torch.cat([shorter[1], decay[-1:]])
    firsts = _halving(*shorter, (length + 3) // 2)
    sums = torch.empty_like(terms)
    sums2 = _in_pairs(sums)
    sums2[:, 0] = firsts[:pairs]
    followed = firsts.shape[0] - 1
    torch.addcmul(terms2[:followed, 1], decay2[:followed, 1], firsts[1:], out=sums2[:followed, 1])
    sums[-1] = terms[-1]
    return sums


def _in_pairs(tensor: Tensor) -> Tensor:
    """Two steps each ``[pairs, 2, ...]``, without the last one if it is alone."""
    pairs = tensor.shape[0] // 2
    return tensor[: 2 * pairs].view(pairs, 2, *tensor.shape[1:])


def _doubling(terms: Tensor, decay: Tensor, length: int) -> Tensor:
    """After each pass a step has gathered twice as many that follow it (Hillis & Steele 1986)."""
    steps = terms.shape[0]
    # Zeros behind the last step, as many as a step ever reaches over, make every pass one slice long.
    padded = steps + (1 << (length - 1).bit_length()) // 2
    buffers = terms.new_empty((4, padded, *terms.shape[1:]))
    buffers[:, steps:] = 0
    made, made_decay, sums, factors = buffers.unbind()
    # As many views as buffers: making them takes as long as a pass over a small batch.
    made_here, made_decay_here, sums_here, factors_here = buffers[:, :steps].unbind()
    sums_here.copy_(terms)
    factors_here.copy_(decay)
    reach = 1
    while reach < length:
        torch.addcmul(sums_here, factors_here, sums[reach : reach + steps], out=made_here)
        made, sums, made_here, sums_here = sums, made, sums_here, made_here
        if 2 * reach < length:
            torch.mul(factors_here, factors[reach : reach + steps], out=made_decay_here)
            made_decay, factors = factors, made_decay
            made_decay_here, factors_here = factors_here, made_decay_here
        reach *= 2
    return sums_here


def _functional_doubling(terms: Tensor, decay: Tensor, length: int) -> Tensor:
    """`_doubling` without writing into slices: what a compiler fuses and differentiates by itself.

    What is not finite stays in its trajectory, where `_doubling` multiplies it by zero, which is not a number.
    """
    reach = 1
    while reach < length:
        following = _of_trajectory(terms[reach:], decay[:-reach])
        terms = torch.cat([torch.addcmul(terms[:-reach], decay[:-reach], following), terms[-reach:]])
        if 2 * reach < length:
            decay = torch.cat([decay[:-reach] * decay[reach:], torch.zeros_like(decay[-reach:])])
        reach *= 2
    return terms


def _of_trajectory(following: Tensor, decay: Tensor) -> Tensor:
    """What follows each step, with zeros in the place of what is not finite where the trajectory has ended."""
    return following.masked_fill((decay == 0) & ~following.isfinite(), 0)
