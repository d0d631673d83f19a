"""What all value estimates share: checks of shapes and flags, where time is, discounts as tensors."""

from __future__ import annotations

import functools
from typing import TypeAlias

import torch
from torch import Tensor

Discount: TypeAlias = float | Tensor
"""A number, or a tensor that broadcasts to the rewards: one discount for each step, for example."""


def same_shape(**tensors: Tensor) -> None:
    """Check that all tensors have one shape.

    Raises:
        RuntimeError: if they do not, naming each.
    """
    if len({tensor.shape for tensor in tensors.values()}) > 1:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise RuntimeError(f"the value, the reward and the done flags must have one shape, got {shapes}")


def checked_flag(name: str, flag: Tensor) -> Tensor:
    """``flag`` if it is of booleans.

    Raises:
        RuntimeError: if it is not.
    """
    if flag.dtype != torch.bool:
        raise RuntimeError(f"{name} must be a bool tensor, got {flag.dtype}")
    return flag


def flags(done: Tensor, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where trajectories end, terminated ones too, and where they terminate: at each end, if that is not said.

    Raises:
        RuntimeError: if one is not of booleans.
    """
    done = checked_flag("done", done)
    if terminated is None:
        return done, done
    return done | checked_flag("terminated", terminated), terminated


def time_axis(shape: torch.Size, time_dim: int) -> int:
    """``time_dim`` counted from the front.

    Raises:
        RuntimeError: if there is no such dimension.
    """
    if not -len(shape) <= time_dim < len(shape):
        raise RuntimeError(f"time_dim={time_dim} is no dimension of tensors of shape {tuple(shape)}")
    return time_dim % len(shape)


def trajectories(
    time_dim: int, done: Tensor, terminated: Tensor | None, **signals: Tensor
) -> tuple[int, Tensor, Tensor]:
    """Where time is, counted from the front, where trajectories end, and where they terminate.

    Args:
        time_dim: where time is.
        done: the trajectory ends here.
        terminated: the next state is worth nothing; by default ``done``.
        **signals: what has their shape besides, by name.

    Raises:
        RuntimeError: if shapes differ, flags are not of booleans, or ``time_dim`` is no dimension.
    """
    same_shape(**signals, done=done, terminated=done if terminated is None else terminated)
    return time_axis(done.shape, time_dim), *flags(done, terminated)


def ends(done: Tensor, axis: int) -> Tensor:
    """``done``, and the last step of the data: nothing that follows it is known."""
    last = torch.arange(done.shape[axis], device=done.device) == done.shape[axis] - 1
    return done | last.view(-1, *(1,) * (done.ndim - axis - 1))


def per_step(name: str, value: Discount, like: Tensor) -> Tensor:
    """``value`` as a tensor of the dtype and device of ``like``, that broadcasts to it without growing it.

    Raises:
        RuntimeError: if its shape does not fit.
    """
    if not isinstance(value, Tensor):
        return like.new_full((), value)
    if value.ndim and not _fits(value.shape, like.shape):
        raise RuntimeError(
            f"{name} must be a number or a tensor that fits the rewards' shape {tuple(like.shape)}, "
            f"got one of shape {tuple(value.shape)}"
        )
    return value.to(like)


def _fits(shape: torch.Size, larger: torch.Size) -> bool:
    """Whether a tensor of one shape broadcasts to another without growing it."""
    try:
        return bool(torch.broadcast_shapes(shape, larger) == larger)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False


def where_not(flag: Tensor, value: Tensor) -> Tensor:
    """``value``, and zero where ``flag`` holds, even if the value is not finite there."""
    return torch.where(flag, 0.0, value)


def decay_of(over: Tensor, factor: Tensor, like: Tensor) -> Tensor:
    """``factor``, and zero where ``over`` holds: how much of what follows a step counts in it."""
    # A conversion from uint8 is several times as fast as one from bool, or as a choice.
    return ((~over).view(torch.uint8).to(like.dtype) * factor).expand_as(like)


def in_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the dtype to which torch would promote them."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = functools.reduce(torch.promote_types, dtypes)
    return tuple(tensor.to(dtype) for tensor in tensors)
