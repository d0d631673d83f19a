"""The five groups of an environment's specs (action, state, observation, reward, done): names, defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from specgen_runtime.envs.done import check_done_spec
from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.specs import Categorical, Composite, TensorSpec, Unbounded

__all__ = [
    "INPUT_GROUPS",
    "OUTPUT_GROUPS",
    "SPEC_GROUPS",
    "as_group",
    "check_group",
    "default_group",
    "flag_spec",
]

OUTPUT_GROUPS = ("full_reward_spec", "full_done_spec", "full_observation_spec")
INPUT_GROUPS = ("full_action_spec", "full_state_spec")
SPEC_GROUPS = (*INPUT_GROUPS, *OUTPUT_GROUPS)

_KEYS_OF_LEAVES = {
    "full_action_spec": "action",
    "full_observation_spec": "observation",
    "full_reward_spec": "reward",
    "full_done_spec": "done",
}
"""The key that a leaf gets if it is set as the whole group."""


def flag_spec(shape: tuple[int, ...] | torch.Size, device: torch.device | None) -> TensorSpec:
    """The spec of a done flag."""
    return Categorical(2, shape=shape, dtype=torch.bool, device=device)


def default_group(name: str, batch_size: torch.Size, device: torch.device | None) -> Composite:
    """What a group is if nobody sets it: a reward, the flags `done` and `terminated`, or nothing."""
    leaves: dict[str, TensorSpec] = {}
    if name == "full_reward_spec":
        leaves = {"reward": Unbounded(shape=(*batch_size, 1), device=device)}
    elif name == "full_done_spec":
        leaves = {key: flag_spec((*batch_size, 1), device) for key in ("done", "terminated")}
    return Composite(leaves, shape=batch_size, device=device)


def as_group(name: str, spec: Any, batch_size: torch.Size, device: torch.device | None) -> Composite:
    """The composite that a group becomes when a spec is assigned to it: a copy, or a leaf under its default key.

    Raises:
        TypeError: it is no spec, or a leaf where there is no default key.
        ValueError: it does not start with the batch size.
    """
    short, n = name.removeprefix("full_"), len(batch_size)
    if spec is None:
        spec = Composite(shape=batch_size, device=device)
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"{short} must be a TensorSpec, found {type(spec).__name__}")
    if spec.shape[:n] != batch_size:
        raise ValueError(
            f"{short} must start with the batch size {list(batch_size)}, found shape {list(spec.shape)};"
            f" env.{short}_unbatched = ... adds the batch size for you"
        )
    if isinstance(spec, Composite):
        group = spec.clone()
    elif name in _KEYS_OF_LEAVES:
        group = Composite({_KEYS_OF_LEAVES[name]: spec}, shape=batch_size)
    else:
        raise TypeError(f"{short} must be a Composite, found {type(spec).__name__}")
    return group if device is None else group.to(device)


def check_group(
    name: str,
    spec: Composite,
    others: Mapping[str, Composite],
    batch_size: torch.Size,
    device: torch.device | None,
) -> None:
    """Check a group, and add the done flags that are missing, in place.

    Args:
        name: such as `"full_done_spec"`.
        spec: the group.
        others: the groups, by name, in which its keys must not be; its own does not count.
        batch_size: of the environment.
        device: of the flags that are added.

    Raises:
        RuntimeError: a reward or flag has no dimension behind the batch, or a key has two meanings.
        ValueError: the done flags cannot work together.
    """
    short, n = name.removeprefix("full_"), len(batch_size)
    if name in ("full_reward_spec", "full_done_spec"):
        for key, leaf in spec.items(True, True):
            if leaf is not None and leaf.ndim <= n:
                raise RuntimeError(
                    f"{short}: {show_key(key)} has shape {list(leaf.shape)}; it needs a dimension after the"
                    f" batch size {list(batch_size)}, such as {[*batch_size, 1]}"
                )
    if name == "full_done_spec":
        _complete_done_spec(spec, batch_size, device)
    rivals = INPUT_GROUPS if name in INPUT_GROUPS else OUTPUT_GROUPS
    mine = _keys(spec)
    for rival in rivals:
        if rival != name and rival in others:
            for key in mine & _keys(others[rival]):
                raise RuntimeError(
                    f"key {show_key(key)} is in {short} and in {rival.removeprefix('full_')}; one key has one meaning"
                )


def _keys(spec: Composite) -> set[Any]:
    return {join_key(as_tuple(key)) for key in spec.keys(True, True)}


def _complete_done_spec(spec: Composite, batch_size: torch.Size, device: torch.device | None) -> None:
    if spec.is_empty(recurse=True):
        spec.update(default_group("full_done_spec", batch_size, device))
    check_done_spec(spec)
    present = {join_key(as_tuple(key)): leaf for key, leaf in spec.items(True, True)}
    for key, leaf in list(present.items()):
        for flag in ("done", "terminated"):
            wanted = join_key((*as_tuple(key)[:-1], flag))
            if wanted not in present:
                present[wanted] = flag_spec(leaf.shape, device)
                spec.set(wanted, present[wanted])
