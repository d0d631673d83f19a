"""TD(0): the one-step return."""

from __future__ import annotations

import torch
from torch import Tensor

from specgen_runtime.objectives.value.functional.signals import (
    Discount,
    checked_flag,
    in_one_dtype,
    per_step,
    same_shape,
    where_not,
)


def td0_return_estimate(
    gamma: Discount,
    next_state_value: Tensor,
    reward: Tensor,
    terminated: Tensor | None = None,
    *,
    done: Tensor | None = None,
) -> Tensor:
    """The one-step return ``reward + gamma * (1 - terminated) * next_state_value`` (Sutton & Barto 2018, eq. 6.2).

    Args:
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        next_state_value: of the next state; floating point, any shape.
        reward: the same shape.
        terminated: bool, the same shape: the next state is worth nothing.
        done: in its place, where it is not given.

    Returns:
        The return, in that shape; the reward where ``terminated`` holds, even if the value is not finite there.

    Raises:
        TypeError: if neither ``terminated`` nor ``done`` is given.
        RuntimeError: if shapes differ or flags are not of booleans.
    """
    over = done if terminated is None else terminated
    if over is None:
        raise TypeError("td0_return_estimate needs terminated")
    same_shape(next_state_value=next_state_value, reward=reward, terminated=over)
    following, reward = in_one_dtype(next_state_value, reward)
    following = where_not(checked_flag("terminated", over), following)
    return torch.addcmul(reward, per_step("gamma", gamma, reward), following)


def td0_advantage_estimate(
    gamma: Discount,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
) -> Tensor:
    """The one-step return minus the value of the state: the temporal-difference error.

    Args:
        gamma: see `td0_return_estimate`.
        state_value: of the state; floating point, any shape.
        next_state_value: of the next state, the same shape.
        reward: the same shape.
        done: bool, the same shape; read where ``terminated`` is not given.
        terminated: bool, the same shape: the next state is worth nothing.

    Returns:
        The advantage, in that shape.

    Raises:
        RuntimeError: if shapes differ or flags are not of booleans.
    """
    same_shape(state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    return td0_return_estimate(gamma, next_state_value, reward, terminated, done=done) - state_value
