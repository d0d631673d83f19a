"""`TD0Estimator`: the one-step bootstrapped return."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from specgen_runtime.objectives.value.base import ValueEstimatorBase, checked_discount


def td0_value_estimate(
    next_value: Tensor, reward: Tensor, terminated: Tensor, gamma: float | Tensor
) -> Tensor:
    """The one-step target ``reward + gamma * (1 - terminated) * next_value`` (Sutton & Barto 2018, eq. 6.2).

    A truncated episode bootstraps like any other step: only a terminal state has no value.

    Args:
        next_value: value of the next state, float, any shape.
        reward: float, the same shape.
        terminated: bool, the same shape.
        gamma: discount, a number or a tensor that broadcasts.

    Returns:
        The target, of that shape. Where ``terminated`` holds it is the reward, even if ``next_value`` is not finite.

    Raises:
        RuntimeError: if the shapes differ.
    """
    if not next_value.shape == reward.shape == terminated.shape:
        raise RuntimeError(
            "the value, the reward and terminated must have one shape: "
            f"got {tuple(next_value.shape)}, {tuple(reward.shape)} and {tuple(terminated.shape)}"
        )
    return reward + gamma * torch.where(terminated, 0.0, next_value)


class TD0Estimator(ValueEstimatorBase):
    """The one-step bootstrapped return as a target: cut at ``terminated``, bootstrapping at a truncation.

    Args:
        gamma: discount, in [0, 1].
        value_network: see `ValueEstimatorBase`.
        differentiable: whether `forward` lets gradients through to rewards and observations.
        average_rewards: standardise the rewards of the batch before anything else.
        device: of ``gamma``.

    Raises:
        ValueError: if ``gamma`` is outside [0, 1].
    """

    gamma: Tensor

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        value_network: TensorDictModuleBase | None = None,
        differentiable: bool = False,
        average_rewards: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(value_network=value_network, differentiable=differentiable, device=device)
        self.register_buffer("gamma", checked_discount("gamma", gamma).to(self._device))
        self.average_rewards = average_rewards

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
    ) -> Tensor:
        """The target of each step; see `ValueEstimatorBase.value_estimate` and `td0_value_estimate`.

        If the tensordict holds ``steps_to_next_obs`` (multi-step returns), the discount is raised to that power.
        """
        reward = self._signal(tensordict, "reward")
        terminated = self._signal(
            tensordict,
            "terminated",
            why=" (`done` cannot replace it: a truncated episode still has a future)",
        )
        if self.average_rewards:
            centred = reward - reward.mean()
            reward = centred / centred.std().clamp_min(1e-5)
        if next_value is None:
            next_value = self._next_value(tensordict, target_params)
        gamma = self.gamma
        steps = tensordict.get(self._tensor_keys.steps_to_next_obs, None)
        if steps is not None:
            gamma = gamma ** steps.view_as(reward)
        return td0_value_estimate(next_value, reward, terminated, gamma)
