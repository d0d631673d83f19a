"""Runs a transform that carries values from step to step over recorded data, such as a replay buffer's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["merge", "replay"]


def replay(transform: GeneratedTransform[Any, Any], tensordict: TensorDictBase) -> TensorDictBase:
    """Step a transform along the time dimension of recorded data, starting anew after each episode's end.

    Args:
        transform: has `_reset` and `_step`.
        tensordict: transitions with a dimension named ``"time"``: ``"next"`` holds what each step returned.
            Entries that the transform carries may stand at the root; those of the first moment continue an
            episode that began before the data.

    Returns:
        `tensordict`, with the transform's outputs at the root and in ``"next"``.

    Raises:
        ValueError: if no dimension is named ``"time"``.
        KeyError: if there is no ``"next"``.
    """
    if "time" not in (tensordict.names or ()):
        raise ValueError(
            f"{type(transform).__name__} looks at several moments: one dimension of the data must be named 'time' "
            f"(as in a rollout), got names {tensordict.names}"
        )
    if "next" not in tensordict:
        raise KeyError(f"{type(transform).__name__} needs what each step returned, under 'next'")
    time = tensordict.names.index("time")
    moments = [moment.copy() for moment in tensordict.unbind(time)]
    start = moments[0].exclude("next", *transform.out_keys)
    for key in moments[0]["next"].keys(True, True):
        if leaf_name(key) in FLAGS:
            start.set(key, torch.zeros_like(moments[0]["next"].get(key)))
    given = set(start.keys(True, True))
    fresh = transform._reset(start, start)
    added = [key for key in fresh.keys(True, True) if key not in given]
    fresh = fresh.select(*added)
    root = fresh.copy()
    for key in added:
        if (earlier := moments[0].get(key, None)) is not None:
            root.set(key, earlier)
    before, after = [], []
    for moment in moments:
        before.append(root)
        following = transform._step(moment.copy().update(root), moment["next"])
        after.append(following)
        root = following.select(*added)
        for key in added:
            root.set(key, merge(_done(following, key), fresh.get(key), following.get(key)))
    for key in transform.out_keys:
        tensordict.set(("next", *as_tuple(key)), torch.stack([moment.get(key) for moment in after], time))
        if key in added:
            tensordict.set(key, torch.stack([moment.get(key) for moment in before], time))
    return tensordict


def merge(mask: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """`new` where `mask` is true, `old` elsewhere; the mask's trailing dimensions are made to fit."""
    if mask is None:
        return old
    while mask.ndim > new.ndim:
        mask = mask.squeeze(-1)
    while mask.ndim < new.ndim:
        mask = mask.unsqueeze(-1)
    return torch.where(mask, new, old)


def _done(tensordict: TensorDictBase, key: NestedKey) -> Tensor | None:
    """The root-most `done` on the path of `key`."""
    path = as_tuple(key)
    for depth in range(len(path)):
        flag: Tensor | None = tensordict.get((*path[:depth], "done"), None)
        if flag is not None:
            return flag
    return None
