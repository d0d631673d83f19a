"""Nested keys: conversions between their forms, and how messages show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from specgen_runtime.typing import NestedKey

__all__ = [
    "MASK_KEY",
    "TRAJECTORY_KEY",
    "MissingKeyError",
    "as_tuple",
    "join_key",
    "key_list",
    "leaf_name",
    "next_key",
    "only_key",
    "show_key",
]


MASK_KEY = ("collector", "mask")
"""Where data of one width hold which rows are no padding, bool of the batch's shape."""

TRAJECTORY_KEY = ("collector", "traj_ids")
"""Where collected data hold the number of each row's trajectory, int64 of the batch's shape."""


def as_tuple(key: NestedKey) -> tuple[str, ...]:
    """`"a"` to `("a",)`; a tuple stays as it is."""
    return (key,) if isinstance(key, str) else tuple(key)


def join_key(path: Iterable[str]) -> NestedKey:
    """A path to a key: one name is a string, several are a tuple."""
    names = tuple(path)
    return names[0] if len(names) == 1 else names


def leaf_name(key: NestedKey) -> str:
    """The last name of a key."""
    return key if isinstance(key, str) else key[-1]


def key_list(keys: NestedKey | list[NestedKey]) -> list[NestedKey]:
    """One key or several, as a list; a tuple is one nested key."""
    several = keys if isinstance(keys, list) else [keys]
    return [join_key(as_tuple(key)) for key in several]


def next_key(key: NestedKey) -> tuple[str, ...]:
    """The key of what a step gives: `key` below `"next"`."""
    return ("next", *as_tuple(key))


def show_key(key: NestedKey) -> str:
    """A key as messages print it: `'reward'`, `('agents', 'reward')`."""
    return repr(join_key(as_tuple(key)))


class MissingKeyError(KeyError):
    """A KeyError whose message reads as it was written; a plain one shows it in quotes, escaped."""

    def __str__(self) -> str:
        return str(self.args[0])


def only_key(keys: Sequence[NestedKey], what: str, counted: str | None = None) -> Any:
    """The only one of an environment's keys; for the attribute `{what}_key`.

    Raises:
        KeyError: there are none, or several.
    """
    if len(keys) != 1:
        raise MissingKeyError(
            f"{what}_key needs exactly one {counted or what}, the environment has {list(keys)}; use {what}_keys"
        )
    return keys[0]
