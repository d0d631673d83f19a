"""Random steps for the tests of value estimates, and the estimates as plain loops in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Steps(NamedTuple):
    """Signals of one shape; some steps end, some of these terminate."""

    value: Tensor
    next_value: Tensor
    reward: Tensor
    done: Tensor
    terminated: Tensor

    def to(self, dtype: torch.dtype) -> Steps:
        return Steps(*(tensor.to(dtype) for tensor in self[:3]), *self[3:])


def random_steps(
    *shape: int, seed: int = 0, ending: float = 0.15, dtype: torch.dtype = torch.float64
) -> Steps:
    generator = torch.Generator().manual_seed(seed)
    numbers = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(3)]
    terminated = torch.rand(shape, generator=generator) < ending
    return Steps(*numbers, terminated | (torch.rand(shape, generator=generator) < ending), terminated)


def random_discounts(*shape: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    gamma, lmbda = torch.rand(2, *shape, generator=generator, dtype=torch.float64)
    return gamma, lmbda


def lambda_return(gamma: Tensor, lmbda: Tensor, steps: Steps) -> Tensor:
    """By Sutton & Barto (2018), eq. 12.20; tensors of shape ``[time]``."""
    returns = torch.zeros(len(steps.reward), dtype=torch.float64)
    for t in range(len(returns) - 1, -1, -1):
        bootstrap = 0.0 if steps.terminated[t] else steps.next_value[t].item()
        following = bootstrap if steps.done[t] or t == len(returns) - 1 else returns[t + 1].item()
        returns[t] = steps.reward[t] + gamma[t] * ((1 - lmbda[t]) * bootstrap + lmbda[t] * following)
    return returns


def advantage(gamma: Tensor, lmbda: Tensor, steps: Steps) -> Tensor:
    """The generalised advantage as the sum of Schulman et al. (2016), eq. 16; tensors of shape ``[time]``."""
    length = len(steps.reward)
    errors = [
        steps.reward[t].item()
        + (0.0 if steps.terminated[t] else gamma[t].item() * steps.next_value[t].item())
        - steps.value[t].item()
        for t in range(length)
    ]
    advantages = torch.zeros(length, dtype=torch.float64)
    for start in range(length):
        weight = 1.0
        for t in range(start, length):
            advantages[start] += weight * errors[t]
            weight *= gamma[t].item() * lmbda[t].item()
            if steps.done[t] or weight == 0:
                break
    return advantages


def vtrace(
    gamma: Tensor, log_ratio: Tensor, steps: Steps, rho_thresh: float, c_thresh: float
) -> tuple[Tensor, Tensor]:
    """Advantage and target as in Espeholt et al. (2018), eq. 1 and section 4.2; tensors of shape ``[time]``."""
    length = len(steps.reward)
    target = steps.value.clone().double()
    advantages = torch.zeros(length, dtype=torch.float64)
    for t in range(length - 1, -1, -1):
        weight = log_ratio[t].exp().item()
        rho, c = min(rho_thresh, weight), min(c_thresh, weight)
        bootstrap = 0.0 if steps.terminated[t] else steps.next_value[t].item()
        last = bool(steps.done[t]) or t == length - 1
        carried = 0.0 if last else (target[t + 1] - steps.value[t + 1]).item()
        error = steps.reward[t] + gamma[t] * bootstrap - steps.value[t]
        target[t] = steps.value[t] + rho * error + gamma[t] * c * carried
        later = bootstrap if last else target[t + 1].item()
        advantages[t] = rho * (steps.reward[t] + gamma[t] * later - steps.value[t])
    return advantages, target


def n_step_return(gamma: Tensor, n_steps: int, steps: Steps) -> Tensor:
    """By Sutton & Barto (2018), eq. 7.1; tensors of shape ``[time]``."""
    length = len(steps.reward)
    returns = torch.zeros(length, dtype=torch.float64)
    for start in range(length):
        weight = 1.0
        for t in range(start, min(start + n_steps, length)):
            returns[start] += weight * steps.reward[t].item()
            weight *= gamma[t].item()
            if steps.done[t] or t == min(start + n_steps, length) - 1:
                returns[start] += 0.0 if steps.terminated[t] else weight * steps.next_value[t].item()
                break
    return returns
