"""Whether somebody has overridden methods of an environment that the fast paths would skip."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["STEP_METHODS", "class_overrides", "method_place", "overrides", "overrides_rand_action"]

STEP_METHODS = frozenset(
    {
        *("reset", "_reset", "maybe_reset", "rand_action", "rand_step"),
        *("step", "_step", "step_and_maybe_reset", "step_mdp"),
    }
)
"""The methods that an episode goes through."""


def class_overrides(cls: type, methods: Collection[str] = STEP_METHODS) -> bool:
    """Whether a class, or one of its bases, defines one of the methods outside of this package."""
    return any(not _owner(cls, name).__module__.startswith("specgen_runtime.") for name in methods)


def overrides(env: Any, methods: Collection[str] = STEP_METHODS) -> bool:
    """Whether one of an environment's methods is not the package's: its class defines it, or it is set on the object."""
    return not env.__dict__.keys().isdisjoint(methods) or class_overrides(type(env), methods)


def overrides_rand_action(env: Any) -> bool:
    """Whether an environment, or one that it wraps, has a `rand_action` from outside of this package."""
    inner = env._modules.get("base_env")
    return overrides(env, ("rand_action",)) or (inner is not None and overrides_rand_action(inner))


def method_place(cls: type, name: str) -> int:
    """How far from a class the definition of one of its methods is: 0 for its own."""
    return next(at for at, base in enumerate(cls.__mro__) if name in vars(base))


def _owner(cls: type, name: str) -> type:
    return next(base for base in cls.__mro__ if name in vars(base))
