"""Generalised advantage estimates, of one agent and of several."""

from __future__ import annotations

import torch
from torch import Tensor

from specgen_runtime.objectives.value.functional.signals import (
    Discount,
    decay_of,
    ends,
    in_one_dtype,
    per_step,
    trajectories,
    where_not,
)
from specgen_runtime.objectives.value.recurrence import discounted_sums


def generalized_advantage_estimate(
    gamma: Discount,
    lmbda: Discount,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    *,
    time_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    """The generalised advantage estimate (Schulman et al. 2016, eq. 16), and the value target that goes with it.

    ``advantage[t] = delta[t] + gamma * lmbda * (1 - done[t]) * advantage[t + 1]``, where ``delta`` is the
    temporal-difference error ``reward + gamma * (1 - terminated) * next_state_value - state_value``.

    Args:
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        lmbda: how much later errors count, likewise.
        state_value: of the states; floating point ``[*batch, time, *features]``.
        next_state_value: of the next states, the same shape.
        reward: the same shape.
        done: bool, the same shape: the trajectory ends here.
        terminated: bool, the same shape: the next state is worth nothing. By default ``done``.
        time_dim: where time is.

    Returns:
        The advantage and the value target, ``advantage + state_value``, in that shape.

    Raises:
        RuntimeError: if shapes differ, flags are not of booleans, or ``time_dim`` is no dimension.
    """
    axis, done, terminated = trajectories(
        time_dim, done, terminated, state_value=state_value, next_state_value=next_state_value, reward=reward
    )
    value, following, reward = in_one_dtype(state_value, next_state_value, reward)
    gamma = per_step("gamma", gamma, reward)
    delta = torch.addcmul(reward, gamma, where_not(terminated, following)) - value
    decay = decay_of(ends(done, axis), gamma * per_step("lmbda", lmbda, reward), delta)
    advantage = discounted_sums(delta, decay, axis)
    return advantage, advantage + value


def multi_agent_generalized_advantage_estimate(
    gamma: Discount,
    lmbda: Discount,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    *,
    time_dim: int = -3,
    agent_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    """The `generalized_advantage_estimate` of each agent; rewards and flags may be those of the team.

    Args:
        gamma: see `generalized_advantage_estimate`.
        lmbda: likewise.
        state_value: one for each agent; floating point ``[*batch, time, agents, 1]``.
        next_state_value: of the next states, the same shape.
        reward: the same shape, or without the dimension of the agents: then each agent gets it.
        done: bool, likewise.
        terminated: bool, likewise. By default ``done``.
        time_dim: where time is, in the values.
        agent_dim: where the agents are, in the values.

    Returns:
        The advantage and the value target, in the shape of the values.

    Raises:
        RuntimeError: if shapes differ by more than that.
    """
    over = done if terminated is None else terminated
    return generalized_advantage_estimate(
        gamma,
        lmbda,
        state_value,
        next_state_value,
        for_each_agent("reward", reward, state_value, agent_dim),
        for_each_agent("done", done, state_value, agent_dim),
        for_each_agent("terminated", over, state_value, agent_dim),
        time_dim=time_dim,
    )


def for_each_agent(name: str, signal: Tensor, value: Tensor, agent_dim: int) -> Tensor:
    """A signal of the team repeated for its agents; one that has as many dimensions as ``value`` is left as it is.

    Raises:
        RuntimeError: if it has neither as many dimensions nor one less.
    """
    if signal.ndim == value.ndim:
        return signal
    if signal.ndim != value.ndim - 1:
        raise RuntimeError(
            f"{name} must have the shape of the agents' values, {tuple(value.shape)}, or that without the dimension "
            f"of the agents, got {tuple(signal.shape)}"
        )
    axis = agent_dim % value.ndim
    return signal.unsqueeze(axis).expand(*signal.shape[:axis], value.shape[axis], *signal.shape[axis:])
