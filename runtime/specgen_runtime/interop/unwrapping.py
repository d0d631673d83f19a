"""Unwraps environments: the base environment of transformed ones, the simulator of Gymnasium-backed ones."""

from __future__ import annotations

from typing import Any

from gymnasium import Env
from gymnasium.vector import VectorEnv

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.gym.generated import GeneratedGymEnv
from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = ["innermost_env", "simulator"]


def innermost_env(env: EnvBase[Any]) -> EnvBase[Any]:
    """Return the base environment of a transformed one, at any depth; any other as it is."""
    while (further := _base(env)) is not None:
        env = further
    return env


def simulator(env: Any) -> Any:
    """Return the Gymnasium environment that an environment wraps, or else one that can render; None if there is neither."""
    renderer: Any = None
    while not isinstance(env, Env | VectorEnv):
        # Of the class: some environments ask their workers for attributes that they don't have.
        if renderer is None and callable(getattr(type(env), "render", None)):
            renderer = env
        inner = _base(env)
        if inner is not None:
            env = inner
        elif isinstance(env, GymWrapper):
            env = env.wrapped
        elif isinstance(env, GeneratedGymEnv):
            env = env._gym
        else:
            return renderer
    return env


def _base(env: Any) -> EnvBase[Any] | None:
    return env._modules.get("base_env") if isinstance(env, EnvBase) else None  # type: ignore[return-value]
