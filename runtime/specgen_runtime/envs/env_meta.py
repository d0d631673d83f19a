"""The metaclass of environments: keywords that every environment can be made with, whatever its constructor takes."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING

__all__ = ["EnvMeta"]

if TYPE_CHECKING:  # they would take the arguments of `__call__` for those of every constructor
    EnvMeta = ABCMeta
else:

    class EnvMeta(ABCMeta):
        """Takes `auto_reset`, `auto_reset_replace`, `compile` and `spec_locked`; see `EnvBase`."""

        def __call__(cls, *args, **kwargs):
            """Make an environment, and then what these keywords make of it."""
            auto_reset, replace = kwargs.pop("auto_reset", False), kwargs.pop("auto_reset_replace", True)
            locked, compiled = kwargs.pop("spec_locked", None), kwargs.pop("compile", False)
            if not isinstance(compiled, (bool, dict, type(None))):
                raise TypeError(f"compile must be a bool, or a dict of arguments for it, found {compiled!r}")
            env = super().__call__(*args, **kwargs)
            if locked is not None:
                env.set_spec_lock_(locked)
            if auto_reset:
                from specgen_runtime.envs.auto_reset import AutoResetEnv

                env = AutoResetEnv(env, replace=replace)
            if isinstance(compiled, dict):
                return env.compile(**compiled)
            return env.compile() if compiled else env
