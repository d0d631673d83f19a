"""`GAE` and `MultiAgentGAE`: generalised advantage estimates."""

from __future__ import annotations

from typing import Unpack

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.objectives.keys import required
from specgen_runtime.objectives.value.advantages import AdvantageEstimatorBase
from specgen_runtime.objectives.value.functional.gae import for_each_agent, generalized_advantage_estimate
from specgen_runtime.objectives.value.options import EstimatorOptions, checked_discount


class GAE(AdvantageEstimatorBase):
    """The generalised advantage estimate, see `generalized_advantage_estimate`.

    Args:
        gamma: the discount, in [0, 1]: a number, or a tensor that broadcasts to the rewards. If the data hold
            ``steps_to_next_obs``, it is raised to that power.
        lmbda: how much later errors count, in [0, 1]; likewise.
        average_gae: standardise the advantage, of the batch or of each group; the target is left as it is.
        vectorized: accepted; there is one algorithm.
        time_dim: the batch dimension of time.
        auto_reset_env: the next state of a truncated step is that of the following episode, so that its value says
            nothing: the value of the state itself stands for it.
        **options: see `ValueEstimatorBase`.

    Raises:
        ValueError: if ``gamma`` or ``lmbda`` is outside [0, 1].
    """

    gamma: Tensor
    lmbda: Tensor

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        lmbda: float | Tensor,
        average_gae: bool = False,
        vectorized: bool | None = None,
        time_dim: int | None = None,
        auto_reset_env: bool = False,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__(**options)
        self.register_buffer("gamma", checked_discount("gamma", gamma, self._device))
        self.register_buffer("lmbda", checked_discount("lmbda", lmbda, self._device))
        self.average_gae = average_gae
        self.vectorized = vectorized
        self.time_dim = time_dim
        self.auto_reset_env = auto_reset_env

    def _standardises(self) -> bool:
        return self.average_gae

    def _estimate(
        self, steps: TensorDictBase, value: Tensor, next_value: Tensor, time: int
    ) -> tuple[Tensor, Tensor]:
        reward, done, terminated = (self._signal(steps, role) for role in ("reward", "done", "terminated"))
        gamma = self._discount(self.gamma, steps, reward)
        if gamma.ndim == reward.ndim:
            gamma = self._of_each_value("gamma", gamma, value)
        reward, done, terminated = (
            self._of_each_value(role, signal, value)
            for role, signal in (("reward", reward), ("done", done), ("terminated", terminated))
        )
        if self.auto_reset_env:
            truncated = self._truncated(steps, value)
            reward = reward + gamma * value * truncated
            terminated = done
        return generalized_advantage_estimate(
            gamma, self.lmbda, value, next_value, reward, done, terminated, time_dim=time
        )

    def _truncated(self, steps: TensorDictBase, value: Tensor) -> Tensor:
        key = next_key("truncated")
        truncated = required(steps, key, owner=type(self).__name__, role="truncated (auto_reset_env)")
        return self._of_each_value("truncated", truncated, value)

    def _of_each_value(self, name: str, signal: Tensor, value: Tensor) -> Tensor:
        """A signal in the shape of the values."""
        return signal


class MultiAgentGAE(GAE):
    """`GAE` of agents: values ``[*batch, time, agents, 1]``, with rewards and flags of each agent or of their team.

    A signal of the team, ``[*batch, time, 1]``, is each agent's. The advantage is standardised for each agent by itself.

    Args:
        gamma: see `GAE`.
        lmbda: likewise.
        agent_dim: where the agents are, in the values.
        average_gae: see `GAE`.
        vectorized: likewise.
        time_dim: likewise.
        auto_reset_env: likewise.
        **options: see `ValueEstimatorBase`.
    """

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        lmbda: float | Tensor,
        agent_dim: int = -2,
        average_gae: bool = False,
        vectorized: bool | None = None,
        time_dim: int | None = None,
        auto_reset_env: bool = False,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__(
            gamma=gamma,
            lmbda=lmbda,
            average_gae=average_gae,
            vectorized=vectorized,
            time_dim=time_dim,
            auto_reset_env=auto_reset_env,
            **options,
        )
        self.agent_dim = agent_dim

    def _each_alone(self) -> int | None:
        return self.agent_dim

    def _of_each_value(self, name: str, signal: Tensor, value: Tensor) -> Tensor:
        return for_each_agent(name, signal, value, self.agent_dim)
