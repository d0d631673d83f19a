"""What an environment goes on from: for checkpoints of a training."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import nn

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.wrapping import WrappingEnv
from specgen_runtime.random_state import load_generator

__all__ = ["env_state", "load_env_state"]

_EXTRA = "extra_state"
"""Under which the states of generators have what an environment keeps besides."""


def env_state(env: EnvBase[Any, Any], root: TensorDictBase) -> dict[str, Any]:
    """The state of an environment between two steps.

    Args:
        env: the environment. It is not changed.
        root: where it is: what `reset` or `step_and_maybe_reset` gave last.

    Returns:
        `"root"`; `"statistics"`: its `state_dict`, with what its transforms have learned, and those inside; `"generators"`: the states of
        its random generators, or None where the environment keeps state outside its tensordict (a simulator, a process),
        which can't be saved.
    """
    return {
        "root": root.clone(),
        "statistics": learned_state(env),
        "generators": generator_states(env),
    }


def load_env_state(env: EnvBase[Any, Any], state: Mapping[str, Any]) -> Any:
    """Let an environment go on from a state that `env_state` gave of one like it.

    Where that is impossible, since a simulator is behind it, new episodes begin, with a seed that follows from the
    state; a UserWarning says so.

    Args:
        env: an environment made as the other was.
        state: what `env_state` gave.

    Returns:
        The root tensordict to go on from.
    """
    root = state["root"]
    load_learned_state(env, state["statistics"])
    if state["generators"] is None:
        warnings.warn(
            f"{type(env).__name__} has state outside its tensordict, which no checkpoint holds: new episodes begin",
            stacklevel=2,
        )
        env.set_seed(_digest(root))
        return env.reset()
    set_generator_states(env, state["generators"])
    return root.clone()


_INSIDE = "base_env"
"""Under which the state dict of an environment has that of the one inside, where it leaves that out."""


def learned_state(env: EnvBase[Any, Any]) -> dict[str, Any]:
    """The state dict of an environment, and that of the one inside, which a `TransformedEnv` leaves out."""
    state = _copied(env.state_dict())
    if isinstance(env, WrappingEnv) and type(env).state_dict is not nn.Module.state_dict:
        inside = learned_state(env.base_env)
        if _holds_anything(inside):
            state[_INSIDE] = inside
    return state


def _holds_anything(state: Mapping[str, Any]) -> bool:
    return any(_holds_anything(value) if isinstance(value, Mapping) else True for value in state.values())


def load_learned_state(env: EnvBase[Any, Any], state: Mapping[str, Any], *, strict: bool = True) -> None:
    """Load what `learned_state` gave; `strict` as for `nn.Module.load_state_dict`."""
    if isinstance(env, WrappingEnv) and _INSIDE in state:
        load_learned_state(env.base_env, state[_INSIDE], strict=strict)
        state = {name: value for name, value in state.items() if name != _INSIDE}
    env.load_state_dict(state, strict=strict)


def generator_states(env: EnvBase[Any, Any]) -> dict[str, Any] | None:
    """The states of the generators that are attributes of an environment, or of those inside; None: not all is known.

    An environment with a place of its own in what it draws, such as that in a source of prompts, has it in its
    ``get_extra_state``.
    """
    if isinstance(env, WrappingEnv):
        return None if env._resets_itself else generator_states(env.base_env)
    if isinstance(env, BatchedEnv):
        found = env._every("generator_states")
        return None if any(states is None for states in found) else {"envs": found}
    in_data = not env._keeps_state if isinstance(env, GeneratedEnv) else bool(env._env_layout.state.keys)
    if not in_data:
        return None
    states = {name: _state_of(generator) for name, generator in _generators(env).items()}
    if _has_extra_state(env):
        states[_EXTRA] = env.get_extra_state()
    return states


def set_generator_states(env: EnvBase[Any, Any], states: Mapping[str, Any]) -> None:
    """Set what `generator_states` gave."""
    if isinstance(env, WrappingEnv):
        set_generator_states(env.base_env, states)
    elif isinstance(env, BatchedEnv):
        env._run("set_generator_states", dict(enumerate(states["envs"])))
    else:
        if _has_extra_state(env):
            env.set_extra_state(states[_EXTRA])
        for name, generator in _generators(env).items():
            if isinstance(generator, torch.Generator):
                load_generator(generator, states[name])
            else:
                generator.bit_generator.state = states[name]


def _has_extra_state(env: EnvBase[Any, Any]) -> bool:
    return type(env).get_extra_state is not nn.Module.get_extra_state


def _generators(env: EnvBase[Any, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(env).items()
        if isinstance(value, torch.Generator | np.random.Generator)
    }


def _state_of(generator: Any) -> Any:
    return generator.get_state() if isinstance(generator, torch.Generator) else generator.bit_generator.state


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict whose tensors are not those of the environment."""
    return {
        name: _copied(value)
        if isinstance(value, Mapping)
        else value.clone()
        if isinstance(value, torch.Tensor)
        else value
        for name, value in state.items()
    }


def _digest(root: TensorDictBase) -> int:
    """A seed that follows from the values of a root."""
    digest = hashlib.blake2b(digest_size=4)
    for key, value in sorted(root.items(True, True), key=lambda entry: str(entry[0])):
        if isinstance(value, torch.Tensor):
            digest.update(f"{key}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return int.from_bytes(digest.digest(), "big") >> 1
