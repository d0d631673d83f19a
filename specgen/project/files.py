"""Reading files; those that have not changed since are not read again."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_SETTLED = 2 * 10**9
"""Nanoseconds after which a further change of a file is sure to show in its time."""


class Reader(Generic[T]):
    """What a function makes of the bytes of files, for as long as they keep their time, size and number."""

    def __init__(self, make: Callable[[bytes], T]) -> None:
        self._make = make
        self._known: dict[str, tuple[tuple[int, int, int], T]] = {}

    def read(self, path: str) -> T:
        """What is made of a file.

        Raises:
            OSError: When it can't be read.

        """
        known = self._known.get(path)
        stat = os.stat(path)
        now = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if known is not None and known[0] == now:
            return known[1]
        with open(path, "rb") as file:
            made = self._make(file.read())
        if time.time_ns() - stat.st_mtime_ns > _SETTLED:
            self._known[path] = (now, made)
        else:
            self._known.pop(path, None)
        return made


def sha256(raw: bytes) -> str:
    """The digest of a file's bytes."""
    return hashlib.sha256(raw).hexdigest()
