"""Returns of a fixed number of steps."""

from __future__ import annotations

import torch
from torch import Tensor

from specgen_runtime.objectives.value.functional.signals import (
    Discount,
    ends,
    in_one_dtype,
    per_step,
    trajectories,
    where_not,
)


def n_step_return_estimate(
    gamma: Discount,
    n_steps: int,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """The n-step return: n discounted rewards, then the value of the state (Sutton & Barto 2018, eq. 7.1).

    At the end of a trajectory and of the data it has fewer steps. `MultiStepTransform` makes the same sums for replay
    buffers, which don't know values yet: there the estimators raise ``gamma`` to ``steps_to_next_obs``.

    Args:
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        n_steps: at least 1; with 1 this is the `td0_return_estimate`.
        next_state_value: of the next states; floating point ``[*batch, time, *features]``.
        reward: the same shape.
        done: bool, the same shape: the trajectory ends here.
        terminated: bool, the same shape: the next state is worth nothing. By default ``done``.
        time_dim: where time is.

    Returns:
        The return of each step, in that shape.

    Raises:
        ValueError: if ``n_steps`` is not a positive integer.
        RuntimeError: if shapes differ, flags are not of booleans, or ``time_dim`` is no dimension.
    """
    if isinstance(n_steps, bool) or not isinstance(n_steps, int) or n_steps < 1:
        raise ValueError(f"n_steps must be a positive integer, got {n_steps!r}")
    axis, done, terminated = trajectories(
        time_dim, done, terminated, next_state_value=next_state_value, reward=reward
    )
    following, reward = in_one_dtype(next_state_value, reward)
    gamma = per_step("gamma", gamma, reward)
    bootstrap = where_not(terminated, following)
    over = ends(done, axis)
    returns = reward + gamma * bootstrap
    for _ in range(min(n_steps, reward.shape[axis]) - 1):
        returns = reward + gamma * torch.where(over, bootstrap, returns.roll(-1, axis))
    return returns
