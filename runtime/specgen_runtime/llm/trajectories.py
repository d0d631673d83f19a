"""Trajectories that come into a replay buffer, and the groups that they are of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase, is_non_tensor, lazy_stack
from torch import Tensor

from specgen_runtime.objectives.keys import listed
from specgen_runtime.ragged import rows_at
from specgen_runtime.typing import NestedKey

__all__ = ["group_name", "joined", "rewards_of", "trajectories_in", "warn_of_unfilled"]

_UNFILLED = 100
"""As many groups have as many trajectories as those after which there is a warning if none of them is full."""


def trajectories_in(data: TensorDictBase, done_key: NestedKey, owner: str) -> Iterator[TensorDictBase]:
    """The trajectories in data, which follow each other along the last batch dimension.

    Args:
        data: ``[*batch, time]``.
        done_key: where trajectories end.
        owner: who takes them, in messages.

    Raises:
        KeyError: there is no such entry.
        RuntimeError: there is no dimension of time, or a trajectory has not ended.
    """
    if not data.ndim:
        raise RuntimeError(f"{owner} takes trajectories, with a dimension of time: got a single step")
    rows = data.reshape(-1, data.shape[-1]).unbind(0) if data.ndim > 1 else (data,)
    for number, row in enumerate(rows):
        flags: Any = row.get(done_key, None)
        if flags is None:
            raise _missing(data, done_key, owner)
        done = flags.reshape(len(row), -1).any(-1)
        ends = [int(step) + 1 for step in done.nonzero()]
        if not ends or ends[-1] != len(row):
            raise RuntimeError(
                f"{owner} takes trajectories that have ended: row {number} goes on after its last step, where"
                f" {done_key!r} is False"
            )
        yield from (row[begin:end] for begin, end in zip([0, *ends], ends, strict=False))


def rewards_of(trajectory: TensorDictBase, key: NestedKey, owner: str) -> list[Tensor]:
    """The rewards of a trajectory: all in one tensor, or those of each step, which have perhaps one for each token.

    Raises:
        KeyError: there are none.
    """
    found = rows_at(trajectory, key)
    if found is None:
        raise _missing(trajectory, key, owner)
    return [found] if isinstance(found, Tensor) else found


def _missing(data: TensorDictBase, key: NestedKey, owner: str) -> KeyError:
    return KeyError(f"{owner} reads {key!r}, which is not in the data (they hold {listed(data)})")


def group_name(trajectory: TensorDictBase, key: NestedKey, owner: str) -> Any:
    """What a trajectory's group is found by, from the entry of its first step.

    Raises:
        KeyError: there is no such entry.
        TypeError: it has no equality.
    """
    group: Any = trajectory.get(key, None)
    if group is None:
        raise _missing(trajectory, key, owner)
    first = group[0]
    if isinstance(first, Tensor):
        return tuple(first.flatten().tolist())
    return _frozen(first.data if is_non_tensor(first) else first, key)


def _frozen(value: Any, key: NestedKey) -> Any:
    """A value that can be looked up in a dict."""
    if isinstance(value, Mapping):
        return tuple(sorted((name, _frozen(part, key)) for name, part in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(part, key) for part in value)
    if value is not None and not isinstance(value, str | int | float | bool):
        raise TypeError(
            f"{key!r} names the group of a trajectory by {value!r:.80}, of class {type(value).__name__}: expected a text,"
            " numbers, or lists and dicts of them"
        )
    return value


def warn_of_unfilled(
    held: Mapping[Any, list[TensorDictBase]], came: float, size: int, key: NestedKey
) -> None:
    """Warn, once, that none of many trajectories has completed a group.

    Args:
        held: those that are held back, by their groups.
        came: how many came in, before any group was full.
        size: how many a group is to have.
        key: of groups.
    """
    if came != _UNFILLED * size:
        return
    most = max(map(len, held.values()), default=0)
    warnings.warn(
        f"MCAdvantage waits for {size} trajectories of a group, and none of the first {came} has completed one: there are"
        f" {len(held)} groups at {key!r}, of {most} at most. If an environment answers each prompt {most} times"
        f" (ChatEnv(group={most})), give MCAdvantage that number",
        stacklevel=2,
    )


def joined(trajectories: list[TensorDictBase]) -> TensorDictBase:
    """Trajectories behind each other; a lazy stack of their steps where entries differ in their sizes."""
    shapes = [_shapes(trajectory) for trajectory in trajectories]
    if shapes[0] is not None and all(found == shapes[0] for found in shapes):
        return torch.cat(trajectories, 0)
    return lazy_stack([step for trajectory in trajectories for step in trajectory.unbind(0)], 0)


def _shapes(trajectory: TensorDictBase) -> dict[Any, Any] | None:
    """The sizes of the entries of a step; None if the steps differ in them."""
    try:
        return {key: value.shape[1:] for key, value in trajectory.items(True, True)}
    except RuntimeError:  # of what does not stack
        return None
