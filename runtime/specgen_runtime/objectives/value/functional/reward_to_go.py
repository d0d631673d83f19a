"""Discounted sums of rewards, without values."""

from __future__ import annotations

from torch import Tensor

from specgen_runtime.objectives.value.functional.signals import (
    Discount,
    checked_flag,
    decay_of,
    ends,
    per_step,
    time_axis,
)
from specgen_runtime.objectives.value.recurrence import discounted_sums


def reward2go(reward: Tensor, done: Tensor, gamma: Discount = 1.0, *, time_dim: int = -2) -> Tensor:
    """The discounted sum of the rewards from each step to the end of its trajectory.

    Args:
        reward: floating point ``[*batch, time, *features]``.
        done: bool, the same shape: the trajectory ends here.
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        time_dim: where time is.

    Returns:
        The sums, in that shape.

    Raises:
        ValueError: if shapes differ.
        RuntimeError: if ``done`` is not of booleans, or ``time_dim`` is no dimension.
    """
    if reward.shape != done.shape:
        raise ValueError(
            f"reward and done must have one shape, got {tuple(reward.shape)} and {tuple(done.shape)}"
        )
    axis = time_axis(reward.shape, time_dim)
    decay = decay_of(ends(checked_flag("done", done), axis), per_step("gamma", gamma, reward), reward)
    return discounted_sums(reward, decay, axis)
