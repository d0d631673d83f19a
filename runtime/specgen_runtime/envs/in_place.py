"""Refuse that `_step` or `_reset` write into tensors which they returned before: those are data of earlier steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.packing import peek
from specgen_runtime.envs.spec_leaves import Leaf

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout, TensorKeys

__all__ = ["is_borrowed", "noted_versions", "refuse_changes"]

Noted = list[tuple[Any, Any, int]]
"""Entries: their key (or leaf), their tensor, and how often that had been written to."""


def noted_versions(tensors: TensorKeys, tensordict: TensorDictBase) -> Noted:
    """The tensors in a tensordict with how often each was written to; none where torch compiles this.

    Args:
        tensors: which: `root_tensors` or `reward_tensors` of a layout.
        tensordict: a root, or what is under `"next"`.
    """
    if torch.compiler.is_compiling():
        return []
    names, keys, stacked = tensors
    try:
        if names is not None and type(tensordict) is TensorDict:
            entries = tensordict._tensordict
            return [
                (name, value, value._version) for name in names if (value := entries.get(name)) is not None
            ]
        pairs: list[tuple[Any, Any]] = [(key, peek(tensordict, key)) for key in keys]
        pairs += [(leaf, leaf.find(tensordict)) for leaf in stacked]
        return [(key, value, value._version) for key, value in pairs if isinstance(value, Tensor)]
    except (
        AttributeError,
        RuntimeError,
    ):  # no tensors, or those of torch.inference_mode, which count nothing
        return []


def refuse_changes(layout: Layout, noted: Noted, method: str) -> None:
    """Refuse that a hook of the environment has written into data of earlier steps.

    Args:
        layout: of the environment, for the message.
        noted: from before the hook was called.
        method: `"_step"` or `"_reset"`.

    Raises:
        RuntimeError: naming the key.
    """
    for key, value, version in noted:
        if value._version != version:
            entry = str(key) if isinstance(key, Leaf) else show_key(key)
            raise RuntimeError(
                f"{layout.env}.{method} changed {entry} in place, which is part of an earlier step; return"
                " new tensors, or clones of those that change"
            )


def is_borrowed(value: Tensor) -> bool:
    """Whether a tensor stands in memory that torch does not own, such as an array of NumPy, which others write to."""
    try:
        return not value.untyped_storage().resizable()
    except (NotImplementedError, RuntimeError):  # sparse ones, and those of torch.vmap, have no storage
        return False
