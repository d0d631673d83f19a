"""Recorded data, such as a replay buffer's: their moments, their keys, and which dimension is time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.transforms.keys import as_tuple, is_private, root_most, without_next
from specgen_runtime.typing import NestedKey

__all__ = ["map_moments", "moment_keys", "recorded_group", "recorded_moments", "time_dimension"]

NEVER = {"observation": (*FLAGS, "reward"), "reward": FLAGS, "done": ()}
"""What is called so in recorded data is not among what an environment returns as its observations, rewards and flags."""

Pairs = Iterable[tuple[NestedKey, NestedKey]]


def map_moments(
    tensordict: TensorDictBase, pairs: Pairs, apply: Callable[[NestedKey, NestedKey, Tensor], Tensor]
) -> list[NestedKey]:
    """Apply a function wherever its keys stand: at the root and under ``"next"``; in place.

    Args:
        tensordict: one moment, or transitions.
        pairs: what is read, and where the result is written, as at one moment. An entry under ``"next"`` that a
            pair names in full is read by that pair only.
        apply: the function, of the two keys and the value.

    Returns:
        The keys that stand nowhere.
    """
    pairs = list(pairs)
    named = {as_tuple(in_key) for in_key, _ in pairs}
    found: set[NestedKey] = set()
    for moment in ((), ("next",)):
        values: list[tuple[NestedKey, NestedKey, Tensor]] = []  # all are read before one is written
        for in_key, out_key in pairs:
            place = (*moment, *as_tuple(in_key))
            if moment and place in named:
                continue
            value: Tensor | None = tensordict.get(place, None)
            if value is not None:
                found.add(in_key)
                values.append((in_key, out_key, value))
        for in_key, out_key, value in values:
            tensordict.set((*moment, *as_tuple(out_key)), apply(in_key, out_key, value))
    return [in_key for in_key, _ in pairs if in_key not in found]


def recorded_moments(tensordict: TensorDictBase) -> list[TensorDictBase]:
    """Where recorded data have the entries of a moment: the root, and what stands under ``"next"``."""
    following: TensorDictBase | None = tensordict.get("next", None)
    return [tensordict] if following is None else [tensordict, following]


def moment_keys(tensordict: TensorDictBase, but: Collection[str] = ()) -> dict[NestedKey, torch.dtype]:
    """The entries of a moment with their dtypes: those at the root, and those under ``"next"`` without it.

    Args:
        tensordict: the moment.
        but: the last parts of keys that are left out.
    """
    found: dict[NestedKey, torch.dtype] = {}
    for key, value in tensordict.items(True, True):
        if leaf_name(key) not in but:
            found.setdefault(without_next(key), value.dtype)
    return found


def recorded_group(
    data: TensorDictBase | None, group: str, dtypes: Collection[torch.dtype], by_dtype: bool
) -> list[NestedKey] | None:
    """The keys of a group in recorded data, or what they are called where nobody says otherwise; None if nothing tells.

    Args:
        data: the data, if there are any.
        group: what is asked for: ``"observation"``, ``"reward"``, ``"done"``, ``"flags"``, ...
        dtypes: those that it may have.
        by_dtype: whether all entries of a moment are of the group that have such a dtype, but for flags and rewards.
    """
    named = {} if data is None else moment_keys(data)
    if group == "flags":
        return None if data is None else [key for key in named if leaf_name(key) in FLAGS]
    if data is not None and by_dtype:
        present = moment_keys(data, but=NEVER[group]).items()
        return [key for key, dtype in present if dtype in dtypes and not is_private(key)]
    if group not in ("reward", "done"):
        return None
    found = [key for key, dtype in named.items() if leaf_name(key) == group and dtype in dtypes]
    return (root_most(found) if group == "done" else found) or [group]


def time_dimension(owner: str, tensordict: TensorDictBase) -> int:
    """The dimension of time in recorded data: the one named ``"time"``, or of several without names the last.

    Args:
        owner: who looks at several moments.
        tensordict: the data. Replay buffers of sequences leave their names out.

    Raises:
        ValueError: if it has one dimension without a name, which may be transitions in any order, or none, or others
            are named.
    """
    names = list(tensordict.names) if tensordict.ndim else []
    if "time" in names:
        return names.index("time")
    if len(names) > 1 and not any(names):
        return len(names) - 1
    raise ValueError(
        f"{owner} looks at several moments: one dimension of the data must be named 'time' (as in a rollout), got "
        f"names {names}. Slices of a replay buffer get it by `sample.reshape(-1, slice_len).refine_names(None, 'time')`"
    )
