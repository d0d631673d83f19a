"""What an environment has returned belongs to the data of its steps: it is not to change in later calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.entries import peek
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.leaves import Leaf

if TYPE_CHECKING:
    from specgen_runtime.envs.key_access import KeyAccess

__all__ = ["REWARDS", "is_borrowed", "noted_versions", "refuse_changes"]

REWARDS = ("versions", "full_reward_spec")
"""What `noted_versions` takes for the rewards, which no later root holds."""

Noted = list[tuple[Any, Any, int]]
"""Entries: their key (or leaf), their tensor, and how often that had been written to."""


def noted_versions(env: KeyAccess, tensordict: TensorDictBase, groups: tuple[str, ...]) -> Noted:
    """The tensors of some spec groups in a tensordict, for `refuse_changes`; none where torch compiles this.

    Args:
        env: whose specs.
        tensordict: a root, or what is under `"next"`.
        groups: `"versions"`, then `"full_observation_spec"`, ...: what follows from it is remembered under it.
    """
    if torch.compiler.is_compiling():
        return []
    names, keys, stacked = env._cache.get(groups) or _places(env, groups)
    try:
        if names is not None and type(tensordict) is TensorDict:
            entries = tensordict._tensordict
            return [
                (name, value, value._version) for name in names if (value := entries.get(name)) is not None
            ]
        pairs = [(key, peek(tensordict, key)) for key in keys]
        pairs += [(leaf, leaf.find(tensordict)) for leaf in stacked]
        return [(key, value, value._version) for key, value in pairs if isinstance(value, Tensor)]
    except (
        AttributeError,
        RuntimeError,
    ):  # no tensors, or those of torch.inference_mode, which count nothing
        return []


def _places(env: KeyAccess, groups: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """The keys of some spec groups, all of them names or else None; all of them; the leaves in items of stacks."""
    leaves = {str(e.leaf): e.leaf for e in env._expected(*groups[1:]) if e.dtype is not None}
    keys = [leaf.key for leaf in leaves.values() if not leaf.items]  # a state that is observed stands once
    stacked = [leaf for leaf in leaves.values() if leaf.items]
    flat = not stacked and all(isinstance(key, str) for key in keys)
    found = keys if flat else None, keys, stacked
    env._cache[groups] = found
    return found


def refuse_changes(env: KeyAccess, noted: Noted, method: str) -> None:
    """Refuse that a hook of the environment has written into data of earlier steps.

    Args:
        env: the environment, for the message.
        noted: from before the hook was called.
        method: `"_step"` or `"_reset"`.

    Raises:
        RuntimeError: naming the key.
    """
    for key, value, version in noted:
        if value._version != version:
            entry = str(key) if isinstance(key, Leaf) else show_key(key)
            raise RuntimeError(
                f"{type(env).__name__}.{method} changed {entry} in place, which is part of an earlier step; return"
                " new tensors, or clones of those that change"
            )


def is_borrowed(value: Tensor) -> bool:
    """Whether a tensor stands in memory that torch does not own, such as an array of NumPy, which others write to."""
    try:
        return not value.untyped_storage().resizable()
    except (NotImplementedError, RuntimeError):  # sparse ones, and those of torch.vmap, have no storage
        return False
