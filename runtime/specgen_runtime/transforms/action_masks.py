"""What of an action a mask allows: checks that one fits the other."""

from __future__ import annotations

from typing import Any

import torch

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["mask_shape", "refuse_mask"]


def mask_shape(action: Any) -> torch.Size:
    """The shape of a mask of an action of classes, of its spec: a truth value for each class."""
    vectors: TensorSpec = action.to_one_hot_spec() if hasattr(action, "to_one_hot_spec") else action
    return vectors.shape


def refuse_mask(name: str, action: NestedKey, spec: TensorSpec, mask: NestedKey, found: TensorSpec) -> None:
    """Refuse a mask that does not say of each class of an action whether it is allowed.

    Args:
        name: who has the mask, for the message.
        action: the action, as the policy writes it.
        spec: its spec.
        mask: the observation.
        found: its spec.

    Raises:
        TypeError: the action is none of classes.
        ValueError: the mask has another shape.
    """
    if not hasattr(spec, "update_mask"):
        raise TypeError(f"{name}: {show_key(action)} is no action of classes: {spec}")
    shape = mask_shape(spec)
    if found.shape != shape:
        raise ValueError(
            f"{name}: {show_key(mask)} is {list(found.shape)}, and a mask of {show_key(action)} is {list(shape)}"
        )
