"""Raises `done`, and the flags of nested groups, where a transform has set `terminated`, `truncated` or its own flag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.envs.packing import peek, put_checked
from specgen_runtime.transforms.keys import as_tuple, normal_key
from specgen_runtime.typing import NestedKey

__all__ = ["FlagSet", "flag_sets", "raise_done"]


@dataclass(frozen=True, slots=True)
class FlagSet:
    """The done flags of one level.

    Attributes:
        done: the key of ``done``, which follows from the flags.
        flags: the keys of ``terminated``, ``truncated`` and of flags that transforms add beside them.
        inside: by flag, the keys to raise with it in nested groups: ``done``, and the flag of the same name.
    """

    done: NestedKey
    flags: tuple[NestedKey, ...]
    inside: tuple[tuple[NestedKey, ...], ...]

    def read(self, tensordict: TensorDictBase) -> list[Tensor | None]:
        """The flags as they are now; ``None`` for those that are not there yet."""
        return [peek(tensordict, key) for key in self.flags]


def flag_sets(keys: Iterable[NestedKey]) -> tuple[FlagSet, ...]:
    """Group done flags by level, the root-most first."""
    levels: dict[tuple[str, ...], list[NestedKey]] = {}
    for key in keys:
        levels.setdefault(as_tuple(key)[:-1], []).append(key)
    sets = []
    for level, keys in sorted(levels.items(), key=lambda item: len(item[0])):
        flags = tuple(key for key in keys if leaf_name(key) != "done")
        deeper = [other for other in levels if len(other) > len(level) and other[: len(level)] == level]
        inside = tuple(
            tuple(
                key
                for other in deeper
                for key in (normal_key((*other, "done")), normal_key((*other, leaf_name(flag))))
                if key in levels[other]
            )
            for flag in flags
        )
        sets.append(FlagSet(normal_key((*level, "done")), flags, inside))
    return tuple(sets)


def raise_done(
    tensordict: TensorDictBase, sets: Sequence[FlagSet], before: Sequence[list[Tensor | None]]
) -> None:
    """Raise ``done`` where a flag was raised, and raise the flags of nested groups with it; in place.

    Args:
        tensordict: the entries after a transform.
        sets: the levels, the root-most first.
        before: the flags before the transform (`FlagSet.read`). A flag counts as written if it is another tensor.
    """
    for level, old in zip(sets, before, strict=True):
        for key, previous, inside in zip(level.flags, old, level.inside, strict=True):
            flag: Tensor | None = peek(tensordict, key)
            if flag is None or flag is previous:
                continue
            _raise(tensordict, level.done, flag)
            for nested in inside:
                _raise(tensordict, nested, flag)


def _raise(tensordict: TensorDictBase, key: NestedKey, flag: Tensor) -> None:
    current: Tensor | None = peek(tensordict, key)
    if current is None:
        put_checked(tensordict, key, flag)
        return
    while flag.ndim < current.ndim:  # one flag for all members of a group
        flag = flag.unsqueeze(-2)
    put_checked(tensordict, key, torch.logical_or(current, flag))
