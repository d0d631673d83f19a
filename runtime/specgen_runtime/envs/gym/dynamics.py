"""`GymDynamics`: a Gymnasium environment as the functions of a chain call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

__all__ = ["GymDynamics"]


class GymDynamics:
    """The steps of a Gymnasium environment, for a function that takes several of them as one, or some after a reset.

    Args:
        step: takes one step; see `GeneratedGymEnv._gym_step`.
        reset: starts an episode; see `GeneratedGymEnv._gym_reset`.
        actions: the spec of its actions.
    """

    def __init__(
        self,
        step: Callable[..., tuple[Any, Tensor, Tensor, Tensor]],
        reset: Callable[[], Any],
        actions: Composite,
    ) -> None:
        self._step, self._reset, self._actions = step, reset, actions

    def reset(self) -> tuple[Tensor, ...]:
        """Start a new episode: the observations as declared, in the order of their specs."""
        observation = self._reset()
        return observation if isinstance(observation, tuple) else (observation,)

    def rand_action(self, key: NestedKey) -> Tensor:
        """A random action of the environment, by torch's global generator."""
        action: Tensor = self._actions[key].rand()
        return action

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
