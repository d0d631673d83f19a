"""`from_gymnasium`: a Gymnasium environment as an `EnvBase`. Importing this module imports Gymnasium."""

from __future__ import annotations

from typing import Any

from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.specs.gymnasium import import_gymnasium

__all__ = ["from_gymnasium"]


def from_gymnasium(env: Any, **kwargs: Any) -> GymWrapper[Any]:
    """Return a `GymWrapper` around a `gymnasium.Env` or a `gymnasium.vector.VectorEnv`.

    Raises:
        ImportError: Gymnasium is not installed (extra `gym`).
        TypeError: `env` is of another class.
    """
    gymnasium = import_gymnasium()
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        module = type(env).__module__
        hint = "; environments of the package gym have to be ported" if module.startswith("gym.") else ""
        raise TypeError(
            f"from_gymnasium needs a gymnasium.Env or a gymnasium.vector.VectorEnv, found"
            f" {type(env).__name__} of {module}{hint}"
        )
    return GymWrapper(env, **kwargs)
