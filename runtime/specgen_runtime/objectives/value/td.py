"""`TD0Estimator`, `TD1Estimator` and `TDLambdaEstimator`: returns as targets, by temporal differences."""

from __future__ import annotations

from abc import abstractmethod
from typing import Unpack

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.objectives.value.base import ValueEstimatorBase
from specgen_runtime.objectives.value.functional.gae import for_each_agent
from specgen_runtime.objectives.value.functional.td0 import td0_return_estimate
from specgen_runtime.objectives.value.functional.td_lambda import (
    td1_return_estimate,
    td_lambda_return_estimate,
)
from specgen_runtime.objectives.value.options import EstimatorOptions, checked_discount
from specgen_runtime.objectives.value.standardised import standardised


class TDEstimatorBase(ValueEstimatorBase):
    """Estimators whose target is a return of rewards and values of next states, the present value left aside.

    Where values stand in a group of agents, ``[*batch, agents, 1]``, rewards and flags of the whole team,
    ``[*batch, 1]``, are each agent's.

    Args:
        gamma: the discount, in [0, 1]: a number, or a tensor that broadcasts to the rewards. If the data hold
            ``steps_to_next_obs``, it is raised to that power.
        average_rewards: standardise the rewards of the batch, or of each group, before anything else. The data keep
            theirs.
        **options: see `ValueEstimatorBase`.

    Raises:
        ValueError: if ``gamma`` is outside [0, 1].
    """

    gamma: Tensor

    def __init__(
        self, *, gamma: float | Tensor, average_rewards: bool = False, **options: Unpack[EstimatorOptions]
    ) -> None:
        super().__init__(**options)
        self.register_buffer("gamma", checked_discount("gamma", gamma, self._device))
        self.average_rewards = average_rewards

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
        *,
        time_dim: int | None = None,
    ) -> Tensor:
        """The return of each step; see `ValueEstimatorBase.value_estimate`."""
        time = self._time(tensordict, time_dim)
        reward = self._signal(tensordict, "reward")
        if self.average_rewards:
            reward = standardised(reward, least=1e-5, groups=self._groups(tensordict))
        if next_value is None:
            next_value = self._next_value(tensordict, target_params, time)
        reward = self._of_each_value("reward", reward, next_value)
        return self._return(
            tensordict, self._discount(self.gamma, tensordict, reward), next_value, reward, time
        )

    @abstractmethod
    def _return(
        self, tensordict: TensorDictBase, gamma: Tensor, next_value: Tensor, reward: Tensor, time: int
    ) -> Tensor:
        """The return of each step."""

    def _flag(self, tensordict: TensorDictBase, role: str, next_value: Tensor) -> Tensor:
        """``done`` or ``terminated`` of each value."""
        return self._of_each_value(role, self._signal(tensordict, role), next_value)

    def _of_each_value(self, role: str, signal: Tensor, value: Tensor) -> Tensor:
        """A signal of each value: that of a team, at the root, is each agent's where values stand in a group."""
        of_team = not isinstance(getattr(self._tensor_keys, role), tuple)
        if of_team and isinstance(self._tensor_keys.value, tuple) and signal.ndim < value.ndim:
            return for_each_agent(role, signal, value, agent_dim=-2)
        return signal


class TD0Estimator(TDEstimatorBase):
    """The one-step return as a target, see `td0_return_estimate`: cut at ``terminated``; it reads no ``done``.

    Its arguments are those of `TDEstimatorBase`.
    """

    def _return(
        self, tensordict: TensorDictBase, gamma: Tensor, next_value: Tensor, reward: Tensor, time: int
    ) -> Tensor:
        return td0_return_estimate(
            gamma, next_value, reward, self._flag(tensordict, "terminated", next_value)
        )


class TD1Estimator(TDEstimatorBase):
    """The return of all the rewards of a trajectory as a target, see `td1_return_estimate`.

    Args:
        gamma: see `TDEstimatorBase`.
        average_rewards: likewise.
        time_dim: the batch dimension of time.
        **options: see `ValueEstimatorBase`.

    Raises:
        ValueError: if ``gamma`` is outside [0, 1].
    """

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        average_rewards: bool = False,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__(gamma=gamma, average_rewards=average_rewards, **options)
        self.time_dim = time_dim

    def _return(
        self, tensordict: TensorDictBase, gamma: Tensor, next_value: Tensor, reward: Tensor, time: int
    ) -> Tensor:
        self._check(tensordict)
        done, terminated = (self._flag(tensordict, role, next_value) for role in ("done", "terminated"))
        return td1_return_estimate(gamma, next_value, reward, done, terminated, time_dim=time)


class TDLambdaEstimator(TDEstimatorBase):
    """The lambda-return as a target, see `td_lambda_return_estimate`.

    Args:
        gamma: see `TDEstimatorBase`.
        lmbda: how much the return that follows counts, in [0, 1]: a number, or a tensor that broadcasts to the rewards.
        average_rewards: see `TDEstimatorBase`.
        vectorized: accepted; there is one algorithm.
        time_dim: the batch dimension of time.
        **options: see `ValueEstimatorBase`.

    Raises:
        ValueError: if ``gamma`` or ``lmbda`` is outside [0, 1].
    """

    lmbda: Tensor

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        lmbda: float | Tensor,
        average_rewards: bool = False,
        vectorized: bool = True,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__(gamma=gamma, average_rewards=average_rewards, **options)
        self.register_buffer("lmbda", checked_discount("lmbda", lmbda, self._device))
        self.vectorized = vectorized
        self.time_dim = time_dim

    def _return(
        self, tensordict: TensorDictBase, gamma: Tensor, next_value: Tensor, reward: Tensor, time: int
    ) -> Tensor:
        self._check(tensordict)
        done, terminated = (self._flag(tensordict, role, next_value) for role in ("done", "terminated"))
        return td_lambda_return_estimate(
            gamma, self.lmbda, next_value, reward, done, terminated, time_dim=time
        )
