"""Rollouts of Gymnasium environments copy observations from whatever memory they are in."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from specgen_runtime.envs import GymWrapper


class Counting(gymnasium.Env[Any, Any]):
    """Counts its steps in an array, which it gives again and again."""

    observation_space = spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, array: Any) -> None:
        self.array = array

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.array[:] = 0
        return self.array, {}

    def step(self, action: Any) -> Any:
        self.array += 1
        return self.array, 1.0, False, False, {}


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, np.float32),
        np.zeros(4, np.float32)[::2],
        np.zeros(4, np.float32)[::-2],
        np.zeros(2, ">f4"),
        np.zeros(2, np.float64),
        np.zeros(2, np.int32),
        np.ma.zeros(2, np.float32),
    ],
    ids=["reused", "strided", "reversed", "swapped bytes", "another dtype", "integers", "a subclass"],
)
def test_observations_in_any_memory(array: Any) -> None:
    data = GymWrapper(Counting(array)).rollout(4)
    assert data["observation"].tolist() == [[n, n] for n in range(4)]
    assert data["next", "observation"].tolist() == [[n, n] for n in range(1, 5)]
