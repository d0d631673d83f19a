"""Gymnasium environments whose actions can be told from what they return, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np

from specgen.source.spaces import Record, Space

LOW = [[-1.0, -2.0, -3.0], [-1.0, -1.0, -1.0]]
HIGH = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


class Arm(gymnasium.Env[Any, Any]):
    """Two by three joints, moved by what they are given, which is observed to the last bit."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2, 3), np.float32)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(np.array(LOW, "f4"), np.array(HIGH, "f4"))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32)
        return self.at, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.at = np.clip(self.at * np.float32(0.5) + action, -100, 100).astype(np.float32)
        return self.at, float(self.at.sum()), bool(self.at[0, 0] > 1.2), False, {}


class Precise(Arm):
    """The same with float64 actions."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2, 3), np.float64)


class Buttons(Arm):
    """The same with six buttons."""

    action_space = gymnasium.spaces.Discrete(6)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert type(action) is np.int64
        moved = np.arange(6).reshape(2, 3) == action
        self.at = np.where(moved, self.at + np.float32(0.3), self.at).astype(np.float32)
        return self.at, float(action), bool(self.at[0, 0] > 1.2), False, {}


_OBSERVED = Space("box", "float32", (2, 3), -100.0, 100.0)
RECORDS = {
    "specgen-arm-v0": Record(_OBSERVED, Space("box", "float32", (2, 3), LOW, HIGH), 12),
    "specgen-precise-v0": Record(_OBSERVED, Space("box", "float64", (2, 3), -1.0, 1.0), 12),
    "specgen-buttons-v0": Record(_OBSERVED, Space("discrete", "int64", n=6), 12),
}


@contextmanager
def registered() -> Iterator[None]:
    """Let `gymnasium.make` know the environments of `RECORDS`."""
    classes = {"arm": Arm, "precise": Precise, "buttons": Buttons}
    for name, class_ in classes.items():
        gymnasium.register(f"specgen-{name}-v0", class_, max_episode_steps=12, disable_env_checker=True)
    try:
        yield
    finally:
        for name in classes:
            del gymnasium.registry[f"specgen-{name}-v0"]
