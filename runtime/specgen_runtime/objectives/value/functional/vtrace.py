"""V-trace: off-policy value targets and advantages."""

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


def vtrace_advantage_estimate(
    gamma: Discount,
    log_pi: Tensor,
    log_mu: Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rho_thresh: Discount = 1.0,
    c_thresh: Discount = 1.0,
    time_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    """The V-trace advantage and value target (Espeholt et al. 2018, eq. 1 and section 4.2).

    With the weight of an action, ``w = exp(log_pi - log_mu)``, ``rho = min(rho_thresh, w)`` and
    ``c = min(c_thresh, w)``, the target is ``v[t] = state_value[t] + x[t]``, where
    ``x[t] = rho * (reward + gamma * next_state_value - state_value) + gamma * c * (1 - done) * x[t + 1]``, and the
    advantage ``rho * (reward + gamma * v[t + 1] - state_value)``. Where ``done`` holds and at the last step, ``v[t + 1]``
    is the value of the next state; where ``terminated`` holds, that is worth nothing.

    Args:
        gamma: the discount, a number or a tensor that broadcasts to the rewards.
        log_pi: log-probability of the action that was taken, under the policy that is trained.
        log_mu: the same, under the policy that took it; floating point ``[*batch, time, *features]``, as all.
        state_value: of the states.
        next_state_value: of the next states.
        reward: what came of it.
        done: bool: the trajectory ends here.
        terminated: bool: the next state is worth nothing. By default ``done``.
        rho_thresh: the most that a weight counts in an error, which says whose value function is found.
        c_thresh: the most that it counts in carrying errors back, which says how fast.
        time_dim: where time is.

    Returns:
        The advantage and the value target.

    Raises:
        RuntimeError: if shapes differ, flags are not of booleans, or ``time_dim`` is no dimension.
    """
    axis, done, terminated = trajectories(
        time_dim,
        done,
        terminated,
        log_pi=log_pi,
        log_mu=log_mu,
        state_value=state_value,
        next_state_value=next_state_value,
        reward=reward,
    )
    value, following, reward, log_ratio = in_one_dtype(state_value, next_state_value, reward, log_pi - log_mu)
    gamma = per_step("gamma", gamma, reward)
    weight = log_ratio.exp()
    rho = torch.minimum(weight, per_step("rho_thresh", rho_thresh, reward))
    c = torch.minimum(weight, per_step("c_thresh", c_thresh, reward))
    bootstrap = where_not(terminated, following)
    over = ends(done, axis)
    errors = rho * (torch.addcmul(reward, gamma, bootstrap) - value)
    target = value + discounted_sums(errors, decay_of(over, gamma * c, errors), axis)
    later = torch.where(over, bootstrap, target.roll(-1, axis))
    return rho * (torch.addcmul(reward, gamma, later) - value), target
