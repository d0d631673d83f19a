"""TD(lambda) and TD(1): returns of many steps."""

from __future__ import annotations

import torch
from torch import Tensor

from specgen_runtime.objectives.value.functional.signals import (
    Discount,
    decay_of,
    ends,
    in_one_dtype,
    per_step,
    same_shape,
    trajectories,
    where_not,
)
from specgen_runtime.objectives.value.recurrence import discounted_sums


def td_lambda_return_estimate(
    gamma: Discount,
    lmbda: Discount,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """The lambda-return (Sutton & Barto 2018, eq. 12.20).

    ``G[t] = reward + gamma * ((1 - lmbda) * next_state_value + lmbda * G[t + 1])``, where the next state is worth
    nothing if ``terminated``; at the end of a trajectory and of the data ``lmbda`` counts as 0.

    Args:
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        lmbda: how much the return that follows counts, against the value of the next state; likewise.
        next_state_value: of the next states; floating point ``[*batch, time, *features]``.
        reward: the same shape.
        done: bool, the same shape: the trajectory ends here.
        terminated: bool, the same shape: the next state is worth nothing. By default ``done``.
        rolling_gamma: whether the return discounts each step by that step's ``gamma`` and ``lmbda`` (True or None),
            or by those of the step that it starts from (False). The second takes O(time) passes, and with gradients
            O(time) times the memory.
        time_dim: where time is.

    Returns:
        The return of each step, in that shape.

    Raises:
        RuntimeError: if shapes differ, flags are not of booleans, ``time_dim`` is no dimension, or
            ``rolling_gamma=False`` though neither ``gamma`` nor ``lmbda`` has a value for each step.
    """
    axis, done, terminated = trajectories(
        time_dim, done, terminated, next_state_value=next_state_value, reward=reward
    )
    following, reward = in_one_dtype(next_state_value, reward)
    bootstrap = where_not(terminated, following)
    gamma, lmbda = per_step("gamma", gamma, reward), per_step("lmbda", lmbda, reward)
    if rolling_gamma is not None and not rolling_gamma:
        if gamma.shape != reward.shape and lmbda.shape != reward.shape:
            raise RuntimeError("rolling_gamma=False needs a gamma or a lmbda with a value for each step")
        return _discounted_as_at_the_start(bootstrap, reward, done, gamma, lmbda, axis)
    decay = decay_of(ends(done, axis), gamma * lmbda, reward)
    return discounted_sums(torch.addcmul(reward, gamma - decay, bootstrap), decay, axis)


def td_lambda_advantage_estimate(
    gamma: Discount,
    lmbda: Discount,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    time_dim: int = -2,
) -> Tensor:
    """The `td_lambda_return_estimate` minus ``state_value``, which has the same shape."""
    same_shape(state_value=state_value, next_state_value=next_state_value)
    returns = td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


def td1_return_estimate(
    gamma: Discount,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    """The discounted sum of all rewards up to the end of the trajectory, and the value there if it is truncated.

    This is the `td_lambda_return_estimate` with ``lmbda=1``; arguments and errors are the same.
    """
    if rolling_gamma is not None and not rolling_gamma and not isinstance(gamma, Tensor):
        raise RuntimeError("rolling_gamma=False needs a gamma with a value for each step")
    return td_lambda_return_estimate(
        gamma, 1.0, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )


def td1_advantage_estimate(
    gamma: Discount,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    time_dim: int = -2,
) -> Tensor:
    """The `td1_return_estimate` minus ``state_value``, which has the same shape."""
    same_shape(state_value=state_value, next_state_value=next_state_value)
    returns = td1_return_estimate(
        gamma, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


def _discounted_as_at_the_start(
    bootstrap: Tensor, reward: Tensor, done: Tensor, gamma: Tensor, lmbda: Tensor, axis: int
) -> Tensor:
    """The returns that discount all their steps as the step they start from says.

    The steps are added from the last to the first; each goes into the returns of all steps before it at once.
    """
    tensors = (bootstrap, reward, done, gamma.expand_as(reward), lmbda.expand_as(reward))
    bootstrap, reward, done, gamma, lmbda = (tensor.movedim(axis, 0) for tensor in tensors)
    returns: list[Tensor] = []
    gathered = bootstrap[-1:].expand_as(reward)
    for step in range(reward.shape[0] - 1, -1, -1):
        discount, share = gamma[: step + 1], lmbda[: step + 1]
        value = bootstrap[step]
        following = torch.where(done[step], value, gathered[: step + 1])
        gathered = reward[step] + discount * torch.lerp(value.expand_as(following), following, share)
        returns.append(gathered[step])
    return torch.stack(returns[::-1]).movedim(0, axis)
