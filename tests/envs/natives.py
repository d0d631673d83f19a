"""The library's native environments, for tests of what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_std import chains
from specgen_std import envs as library

NATIVE: list[Callable[..., Any]] = [
    library.Pendulum,
    library.CartPole,
    library.MountainCarContinuous,
    library.Acrobot,
    chains.PendulumTrain,
    chains.CartPoleTrain,
]
each_native = pytest.mark.parametrize("make", NATIVE, ids=lambda make: make.__name__)


def started(env: Any, seed: int = 0) -> Any:
    """A root with an action."""
    torch.manual_seed(seed)
    env.set_seed(seed)
    return env.rand_action(env.reset())
