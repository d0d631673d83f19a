"""What earlier compilations found out, kept by digests of everything that it depends on."""

from __future__ import annotations

from typing import Any, Literal, Protocol

Kind = Literal["outline", "result", "interface", "text"]
"""What is kept of a file: what it says of itself; what came of it; what importing files may know; its module."""


class Memo(Protocol):
    """What earlier compilations found out, each by a digest of everything that it depends on."""

    def get(self, kind: Kind, key: str) -> Any:
        """What is known under a key; None when nothing is."""
        ...

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep what was found out."""
        ...


class Memory:
    """A memo that lasts as long as it is held."""

    def __init__(self) -> None:
        self._known: dict[tuple[Kind, str], Any] = {}

    def get(self, kind: Kind, key: str) -> Any:
        """What is known under a key."""
        return self._known.get((kind, key))

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep what was found out."""
        self._known[kind, key] = value
