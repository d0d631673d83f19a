"""`AdvantageEstimatorBase`: estimators of advantages, whose target is found with the advantage from the values."""

from __future__ import annotations

from abc import abstractmethod

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.objectives.value.base import ValueEstimatorBase
from specgen_runtime.objectives.value.standardised import standardised


class AdvantageEstimatorBase(ValueEstimatorBase):
    """Estimators that need the values of the states, too: advantage and target come of one computation.

    Attributes:
        _least_deviation: what the advantage is divided by at least, where it is standardised.
    """

    _least_deviation: float = 1e-4

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
        *,
        params: TensorDictBase | None = None,
        time_dim: int | None = None,
    ) -> Tensor:
        """The target of each step; see `ValueEstimatorBase.value_estimate`.

        Args:
            tensordict: holds the signals under ``"next"``, and whatever else the estimator reads.
            target_params: parameters of the value network for next states.
            next_value: the value of the next state; else it is read or computed.
            params: parameters of the value network.
            time_dim: the batch dimension of time.
        """
        self._check(tensordict)
        time = self._time(tensordict, time_dim)
        value, following, _, steps = self._values(tensordict, params, target_params, time)
        return self._estimate(steps, value, following if next_value is None else next_value, time)[1]

    def _advantage_and_target(
        self, steps: TensorDictBase, value: Tensor, next_value: Tensor, time: int, valid: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        advantage, target = self._estimate(steps, value, next_value, time)
        if self._standardises():
            advantage = standardised(
                advantage,
                least=self._least_deviation,
                valid=valid,
                groups=self._groups(steps),
                agent_dim=self._each_alone(),
            )
        return advantage, target

    @abstractmethod
    def _estimate(
        self, steps: TensorDictBase, value: Tensor, next_value: Tensor, time: int
    ) -> tuple[Tensor, Tensor]:
        """The advantage and the target of each step."""

    @abstractmethod
    def _standardises(self) -> bool:
        """Whether the advantage is standardised."""

    def _each_alone(self) -> int | None:
        """The dimension whose entries are standardised each by itself; None for all of them together."""
        return None
