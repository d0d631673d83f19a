"""Keys of nested entries: one canonical form, and what to say when one is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeGuard

from specgen_runtime.typing import NestedKey

__all__ = ["RESERVED", "as_path", "is_key", "say_where", "unknown_key"]

RESERVED = frozenset({"shape", "device", "dtype", "space"})
"""Names that every spec has as an attribute; no entry may have one of them."""


def is_key(value: object) -> TypeGuard[NestedKey]:
    """Whether a value names an entry: a string, or a non-empty tuple of such."""
    if isinstance(value, str):
        return True
    return isinstance(value, tuple) and bool(value) and all(map(is_key, value))


def as_path(key: NestedKey) -> tuple[str, ...]:
    """Read a key as a path of names; tuples within tuples are joined.

    Raises:
        TypeError: if it is not a string or a non-empty tuple of strings.
    """
    if isinstance(key, str):
        return (key,)
    if not is_key(key):
        raise TypeError(f"a key must be a string or a tuple of strings, got {key!r}")
    return tuple(name for part in key for name in as_path(part))


def unknown_key(key: object, known: Iterable[NestedKey]) -> KeyError:
    """The error for a key that is not there, with the nearest known one."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(key), names, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; the keys are {', '.join(names) or 'none'}"
    return KeyError(f"no entry {key!r}{hint}")


def say_where(error: Exception, place: str) -> None:
    """Put a place (`key 'reward'`) in front of an error's message; from the inside out, they form a path."""
    message = error.args[0] if error.args else ""
    error.args = (f"{place}: {message}", *error.args[1:])
