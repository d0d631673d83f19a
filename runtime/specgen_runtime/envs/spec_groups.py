"""The five groups of an environment's specs (action, state, observation, reward, done): names, defaults and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from specgen_runtime.envs.done import check_done_spec
from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.specs import Categorical, Composite, TensorSpec, Unbounded
from specgen_runtime.typing import NestedKey

__all__ = [
    "INPUT_GROUPS",
    "OUTPUT_GROUPS",
    "RIVALS",
    "SPEC_GROUPS",
    "as_group",
    "check_group",
    "check_meanings",
    "default_group",
    "flag_spec",
    "group_keys",
]

OUTPUT_GROUPS = ("full_reward_spec", "full_done_spec", "full_observation_spec")
INPUT_GROUPS = ("full_action_spec", "full_state_spec")
SPEC_GROUPS = (*INPUT_GROUPS, *OUTPUT_GROUPS)
RIVALS = {name: frozenset(groups) - {name} for groups in (INPUT_GROUPS, OUTPUT_GROUPS) for name in groups}
"""The groups that may not have a key in common with a group."""

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


def check_group(name: str, spec: Composite, batch_size: torch.Size, device: torch.device | None) -> None:
    """Check the shapes of a group, and add the done flags that are missing, in place.

    Args:
        name: such as `"full_done_spec"`.
        spec: the group.
        batch_size: of the environment.
        device: of the flags that are added.

    Raises:
        RuntimeError: a reward or a flag has no dimension behind the batch.
        ValueError: the done flags cannot work together.
    """
    if name not in ("full_reward_spec", "full_done_spec"):
        return
    for key, leaf in spec.items(True, True):
        if leaf is not None and leaf.ndim <= len(batch_size):
            raise RuntimeError(
                f"{name.removeprefix('full_')}: {show_key(key)} has shape {list(leaf.shape)}; it needs a dimension"
                f" after the batch size {list(batch_size)}, such as {[*batch_size, 1]}"
            )
    if name == "full_done_spec":
        _complete_done_spec(spec, batch_size, device)


def group_keys(spec: Composite) -> tuple[NestedKey, ...]:
    """The keys of a group's leaves, in its order."""
    return tuple(join_key(as_tuple(key)) for key in spec.keys(True, True))


def check_meanings(name: str, keys: Iterable[NestedKey], others: Mapping[str, Iterable[NestedKey]]) -> None:
    """Refuse keys that another group of inputs, or of outputs, has too.

    Args:
        name: such as `"full_done_spec"`.
        keys: of that group.
        others: the keys of groups by name; its own do not count.

    Raises:
        RuntimeError: naming the key and both groups.
    """
    mine = set(keys)
    for rival in sorted(RIVALS[name]):
        for key in mine.intersection(others.get(rival, ())):
            raise RuntimeError(
                f"key {show_key(key)} is in {name.removeprefix('full_')} and in {rival.removeprefix('full_')};"
                " one key has one meaning"
            )


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
