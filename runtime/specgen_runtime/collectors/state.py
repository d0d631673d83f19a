"""What a collection goes on from, as plain data: tensors, numbers and text, which `torch.load` reads with `weights_only`."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.env_state import generator_states, set_generator_states
from specgen_runtime.random_state import random_state, set_random_state

__all__ = [
    "go_on_with",
    "load_random_states",
    "plain_tensordict",
    "random_states",
    "tensordict_of",
]


def plain_tensordict(value: Any) -> Any:
    """A tensordict as plain values of its own; `tensordict_of` makes it again. None stays None."""
    return None if value is None else to_plain(value.clone())


def tensordict_of(plain: Any, device: torch.device | None = None) -> Any:
    """The tensordict that `plain_tensordict` took apart, on a device."""
    return None if plain is None else from_plain(plain, device).clone()


def random_states(env: EnvBase[Any], *devices: torch.device | None) -> dict[str, Any]:
    """The states of torch's generators of the CPU and of some devices, and of an environment's own.

    Returns:
        `"torch"`, by device; `"env"`, or None there where the environment has state outside its tensordicts (a simulator).
    """
    places = {"cpu", *[str(device) for device in devices if device is not None and device.type == "cuda"]}
    torch_states = {place: random_state(torch.device(place)) for place in sorted(places)}
    return {"torch": torch_states, "env": generator_states(env)}


def load_random_states(env: EnvBase[Any], states: Mapping[str, Any]) -> None:
    """Set what `random_states` gave; the states of devices that are not here are left out."""
    for place, state in states["torch"].items():
        device = torch.device(place)
        if device.type == "cpu" or (device.index or 0) < torch.cuda.device_count():
            set_random_state(device, state)
    if states["env"] is not None:
        set_generator_states(env, states["env"])


def go_on_with(env: EnvBase[Any], states: Mapping[str, Any], frames: int) -> None:
    """Set what `random_states` gave; an environment that cannot go on begins new episodes, with a warning.

    Args:
        env: the environment.
        states: the random states.
        frames: how many frames there were before.
    """
    load_random_states(env, states)
    if states["env"] is None and frames:
        env.set_seed(_new_episodes_seed(states, frames))
        warnings.warn(
            f"the state of {type(env).__name__} is outside its tensordicts: new episodes begin", stacklevel=3
        )


def _new_episodes_seed(states: Mapping[str, Any], frames: int) -> int:
    """The seed of the episodes that begin where a simulator cannot go on, less than 2**31.

    A digest of what `random_states` gave and of the frames before, so that no earlier episode is repeated.
    """
    digest = hashlib.blake2b(str(frames).encode(), digest_size=4)
    digest.update(states["torch"]["cpu"].numpy().tobytes())
    return int.from_bytes(digest.digest(), "big") >> 1
