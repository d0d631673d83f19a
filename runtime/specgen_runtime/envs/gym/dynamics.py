"""`GymDynamics`: a Gymnasium environment as the functions of a chain call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

__all__ = ["GymDynamics"]


class GymDynamics:
    """The steps of a Gymnasium environment, for a function that takes several of them as one.

    Args:
        step: takes one step; see `GeneratedGymEnv._gym_step`.
    """

    def __init__(self, step: Callable[..., tuple[Any, Tensor, Tensor, Tensor]]) -> None:
        self._step = step

    def step(self, *actions: Tensor) -> tuple[Tensor, ...]:
        """Take a step.

        Args:
            actions: tensors as declared, in the order of the action specs.

        Returns:
            The observations as declared, in the order of their specs; reward float32 `(1,)`; terminated and
            truncated bool `(1,)`.
        """
        observation, *rest = self._step(*actions)
        return (*observation, *rest) if isinstance(observation, tuple) else (observation, *rest)
