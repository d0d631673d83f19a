"""Methods that users may write anew, and that the fast paths through environments would go past."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["HOOKS", "draws_anew", "rewrites", "rewritten"]

HOOKS = frozenset(
    {
        *("reset", "_reset", "maybe_reset", "rand_action", "rand_step"),
        *("step", "_step", "step_and_maybe_reset", "step_mdp"),
    }
)
"""What an episode goes through."""


def rewrites(cls: type, hooks: Collection[str] = HOOKS) -> bool:
    """Whether a class, or one that it stands on, defines one of the hooks outside of this package."""
    return any(not _owner(cls, hook).__module__.startswith("specgen_runtime.") for hook in hooks)


def rewritten(env: Any, hooks: Collection[str] = HOOKS) -> bool:
    """Whether one of an environment's hooks is not the package's: its class defines it, or somebody has set it."""
    return not env.__dict__.keys().isdisjoint(hooks) or rewrites(type(env), hooks)


def draws_anew(env: Any) -> bool:
    """Whether somebody has written `rand_action` anew, in an environment or in one inside it."""
    inside = env._modules.get("base_env")
    return rewritten(env, ("rand_action",)) or (inside is not None and draws_anew(inside))


def _owner(cls: type, hook: str) -> type:
    return next(base for base in cls.__mro__ if hook in vars(base))
