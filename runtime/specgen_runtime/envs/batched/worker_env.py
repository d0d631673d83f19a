"""`WorkerEnv`: one environment of a batch and the commands it takes, wherever it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.description import Description
from specgen_runtime.envs.batched.messages import Sealed

__all__ = ["CALLABLE", "OPAQUE", "VALUE", "WorkerEnv"]

CALLABLE = "callable"
OPAQUE = "opaque"
VALUE = "value"


class WorkerEnv:
    """Carries out commands on an environment.

    The commands are the methods of this class that begin with `do_`; each takes one argument.

    Args:
        env: the environment.
        remote: whether answers leave the process, so that values that can't be pickled have to stay.
    """

    def __init__(self, env: EnvBase[Any], *, remote: bool = True) -> None:
        self.env = env
        self.remote = remote

    def do(self, command: str, argument: Any) -> Any:
        """Carry out a command."""
        method: Callable[[Any], Any] = getattr(self, f"do_{command}")
        return method(argument)

    def _here(self, tensordict: TensorDictBase) -> Any:
        """A row on the environment's device."""
        device = self.env.device
        if tensordict.device == device:
            return tensordict
        return tensordict.to(device) if device is not None else tensordict.clear_device_()

    def do_describe(self, _: None) -> Description:
        """Tell what the environment's data look like."""
        return Description.of(self.env)

    def do_reset(self, argument: tuple[TensorDictBase | None, dict[str, Any]]) -> Any:
        """Reset; the row, updated."""
        row, kwargs = argument
        return self.env.reset(None if row is None else self._here(row), **kwargs)

    def do_step(self, row: TensorDictBase) -> Any:
        """Step; the row's `"next"`."""
        return self.env.step(self._here(row)).get("next")

    def do_step_and_maybe_reset(self, row: TensorDictBase) -> tuple[Any, Any]:
        """Step and reset what is done; the row's `"next"`, and the next row."""
        record, root = self.env.step_and_maybe_reset(self._here(row))
        return record.get("next"), root

    def do_seed(self, argument: tuple[int | None, bool]) -> int | None:
        """Seed; the seed for the next environment."""
        seed, static_seed = argument
        return self.env.set_seed(seed, static_seed=static_seed)

    def do_get(self, path: tuple[str, ...]) -> tuple[str, Any]:
        """An attribute: what it is, and its value if that can be sent: `Sealed`, if it leaves the process."""
        value = self._find(path)
        if callable(value) and not isinstance(value, torch.nn.Module):
            return CALLABLE, None
        if not self.remote:
            return VALUE, value
        try:
            return VALUE, Sealed(value)
        except Exception:
            return OPAQUE, None

    def do_call(self, argument: tuple[tuple[str, ...], tuple[Any, ...], dict[str, Any]]) -> Any:
        """Call a method."""
        path, args, kwargs = argument
        return self._find(path)(*args, **kwargs)

    def _find(self, path: tuple[str, ...]) -> Any:
        value: Any = self.env
        for name in path:
            value = getattr(value, name)
        return value

    def do_state_dict(self, argument: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """The environment's state dict, and that of the one inside where it leaves that out."""
        from specgen_runtime.envs.env_state import learned_state

        args, kwargs = argument
        return self.env.state_dict(*args, **kwargs) if args or kwargs else learned_state(self.env)

    def do_load_state_dict(self, argument: tuple[Any, dict[str, Any]]) -> None:
        """Load a state dict."""
        from specgen_runtime.envs.env_state import load_learned_state

        state, kwargs = argument
        load_learned_state(self.env, state, **kwargs)

    def do_generator_states(self, _: None) -> dict[str, Any] | None:
        """The states of the environment's generators; None if it has state outside its tensordict."""
        from specgen_runtime.envs.env_state import generator_states

        return generator_states(self.env)

    def do_set_generator_states(self, states: dict[str, Any]) -> None:
        """Set the states of the environment's generators."""
        from specgen_runtime.envs.env_state import set_generator_states

        set_generator_states(self.env, states)

    def do_to(self, device: torch.device) -> None:
        """Move the environment."""
        self.env = self.env.to(device)

    def do_close(self, _: None) -> None:
        """Close the environment."""
        self.env.close(raise_if_closed=False)
