"""What of an action a mask allows: checks that one fits the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["mask_shape", "masks_of", "refuse_mask", "renamed_actions", "shown_key"]


def mask_shape(action: Any) -> torch.Size:
    """The shape of a mask of an action of classes, of its spec: a truth value for each class."""
    vectors: TensorSpec = action.to_one_hot_spec() if hasattr(action, "to_one_hot_spec") else action
    return vectors.shape


def masks_of(
    rows: Sequence[Any],
    inverse_rows: Sequence[Any],
    masks: Iterable[tuple[str, str]],
    one_each: Collection[str],
) -> tuple[tuple[NestedKey, NestedKey], ...]:
    """The actions of a transform's repetitions, each with its mask: that of its place, or one for all.

    Args:
        rows: the records of what is read.
        inverse_rows: those of the inverse.
        masks: an action, a field of either, and its mask, a field of the first ones.
        one_each: the fields that stand for one key after another.

    Raises:
        ValueError: there is one mask for each action, and another number of actions.
    """
    found: list[tuple[NestedKey, NestedKey]] = []
    for action, mask in masks:
        own = bool(rows) and hasattr(rows[0], action)
        actions = [getattr(row, action) for row in (rows if own else inverse_rows)]
        keys = [getattr(row, mask) for row in rows]
        keys = keys if own or mask in one_each else keys[:1] * len(actions)
        if len(keys) != len(actions):
            raise ValueError(
                f"there are {len(keys)} masks, {', '.join(map(show_key, keys))}, of {len(actions)} actions,"
                f" {', '.join(map(show_key, actions))}: each action has one"
            )
        found += zip(actions, keys, strict=True)
    return tuple(found)


def renamed_actions(transform: Any) -> dict[NestedKey, NestedKey]:
    """The actions that the environment is given as they are, but under another key, each with what the policy calls it."""
    pairs = getattr(transform, "_renamed_inverse", ())
    rows = transform.keys_inv if pairs else ()
    return {getattr(row, role): getattr(row, made) for row in rows for role, made in pairs}


def shown_key(transform: Any, key: NestedKey) -> NestedKey:
    """Where an entry stands behind a transform that shows it as it is under another key, and no longer, or not it, under `key`."""
    maps: dict[str, str] = getattr(transform, "_maps", {})
    if not maps or (key not in transform.out_keys and key not in transform.dropped_keys):
        return key
    for row in transform.keys:
        for name, role in maps.items():
            how = transform._follows.get(name)
            if how is None or how.image != "same" or how.source != role or getattr(row, role) != key:
                continue
            shown: NestedKey = getattr(row, name)
            return shown
    return key


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
