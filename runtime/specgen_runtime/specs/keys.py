"""Keys of nested entries: one canonical form, and what to say when one is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeGuard

from specgen_runtime.typing import NestedKey

__all__ = ["as_path", "is_key", "unknown_key"]


def is_key(value: object) -> TypeGuard[NestedKey]:
    """Whether a value names an entry: a string, or a non-empty tuple of strings."""
    if isinstance(value, str):
        return True
    return isinstance(value, tuple) and bool(value) and all(isinstance(part, str) for part in value)


def as_path(key: NestedKey) -> tuple[str, ...]:
    """Read a key as a path of names.

    Raises:
        TypeError: if it is not a string or a non-empty tuple of strings.
    """
    if not is_key(key):
        raise TypeError(f"a key must be a string or a tuple of strings, got {key!r}")
    return (key,) if isinstance(key, str) else key


def unknown_key(key: NestedKey, known: Iterable[NestedKey]) -> KeyError:
    """The error for a key that is not there, with the nearest known one."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(key), names, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; the keys are {', '.join(names) or 'none'}"
    return KeyError(f"no entry {key!r}{hint}")
