"""What a collection goes on from, as plain data: tensors, numbers and text, which `torch.load` reads with `weights_only`."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, TensorDictBase, is_non_tensor

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.random_state import load_generator, random_state, set_random_state

__all__ = [
    "load_random_states",
    "plain_tensordict",
    "random_states",
    "remembers_all",
    "tensordict_of",
]


def plain_tensordict(value: Any) -> Any:
    """A tensordict as nested dicts; `tensordict_of` makes it again. None stays None."""
    if value is None:
        return None
    if is_non_tensor(value):
        return {
            "data": value.tolist() if value.batch_dims else value.data,
            "batch_size": list(value.batch_size),
        }
    if isinstance(value, LazyStackedTensorDict):
        return {"stack_dim": value.stack_dim, "items": [plain_tensordict(each) for each in value.tensordicts]}
    if not isinstance(value, TensorDictBase):
        return value.clone()
    return {
        "batch_size": list(value.batch_size),
        "device": None if value.device is None else str(value.device),
        "entries": {name: plain_tensordict(entry) for name, entry in value.items()},
    }


def tensordict_of(plain: Any, device: torch.device | None = None) -> Any:
    """The tensordict that `plain_tensordict` took apart, on a device."""
    if plain is None:
        return None
    if isinstance(plain, torch.Tensor):
        return plain.clone() if device is None else plain.to(device, copy=True)
    if "items" in plain:
        items = [tensordict_of(each, device) for each in plain["items"]]
        return LazyStackedTensorDict(*items, stack_dim=plain["stack_dim"])
    if "data" in plain:
        return NonTensorData(plain["data"], batch_size=plain["batch_size"])
    entries = {name: tensordict_of(entry, device) for name, entry in plain["entries"].items()}
    place = device if plain["device"] is not None else None
    return TensorDict(entries, batch_size=plain["batch_size"], device=place)


def remembers_all(env: EnvBase[Any]) -> bool:
    """Whether an environment can go on from a root tensordict alone: its state is in it, and nowhere else."""
    base: Any = env
    while hasattr(base, "base_env"):
        base = base.base_env
    if isinstance(base, GeneratedEnv):
        return not base._keeps_state
    return bool(env._env_layout.state.keys)


def random_states(env: EnvBase[Any], *devices: torch.device | None) -> dict[str, Any]:
    """The states of torch's generators of the CPU and of some devices, and of an environment's own."""
    places = {"cpu", *[str(device) for device in devices if device is not None and device.type == "cuda"]}
    torch_states = {place: random_state(torch.device(place)) for place in sorted(places)}
    return {"torch": torch_states, "env": [each.get_state() for each in _generators(env)]}


def load_random_states(env: EnvBase[Any], states: dict[str, Any]) -> None:
    """Set what `random_states` gave; the states of devices that are not here are left out."""
    for place, state in states["torch"].items():
        device = torch.device(place)
        if device.type == "cpu" or (device.index or 0) < torch.cuda.device_count():
            set_random_state(device, state)
    for generator, state in zip(_generators(env), states["env"], strict=True):
        load_generator(generator, state)


def _generators(env: Any) -> list[torch.Generator]:
    """The generators of an environment, and of those that it consists of in this process."""
    if hasattr(env, "base_env"):
        return _generators(env.base_env)
    if hasattr(env, "envs"):
        return [generator for each in env.envs for generator in _generators(each)]
    generator = getattr(env, "_generator", None)
    return [generator] if isinstance(generator, torch.Generator) else []
