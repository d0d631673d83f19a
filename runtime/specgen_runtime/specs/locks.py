"""Locking a tree of specs against changes."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

__all__ = ["Lockable"]


class Lockable:
    """Something that can be locked together with all that it contains.

    A part of a locked tree stays locked until the tree's root is unlocked or no longer exists.
    """

    _locked: bool = False
    _holders: list[weakref.ref[Lockable]]

    @abstractmethod
    def _lockable_parts(self) -> Iterator[Lockable]:
        """The direct parts that are locked along."""

    @property
    def is_locked(self) -> bool:
        """Whether entries and shape are protected against changes."""
        return self._locked or self._is_held()

    def lock_(self) -> Self:
        """Protect the entries and the shape, here and in every nested part, against changes."""
        if not self._locked:
            self._locked = True
            self._hold_parts(weakref.ref(self))
        return self

    def unlock_(self) -> Self:
        """Allow changes again.

        Raises:
            RuntimeError: if this is a part of a locked tree, whose root must be unlocked instead.
        """
        if self._is_held():
            raise RuntimeError("cannot unlock a part of a locked Composite: unlock its root")
        if self._locked:
            self._locked = False
            self._release_parts()
        return self

    def _require_unlocked(self) -> None:
        if self.is_locked:
            raise RuntimeError("cannot change a locked Composite: call unlock_() on it or on its root first")

    def _is_held(self) -> bool:
        return any(holder() is not None for holder in self._holders)

    def _hold_parts(self, root: weakref.ref[Lockable]) -> None:
        for part in self._lockable_parts():
            part._holders.append(root)
            part._hold_parts(root)

    def _release_parts(self, root: Lockable | None = None) -> None:
        root = self if root is None else root
        for part in self._lockable_parts():
            alive = [(holder, holder()) for holder in part._holders]
            part._holders = [holder for holder, held in alive if held is not None and held is not root]
            part._release_parts(root)

    # Weak references cannot be copied or pickled; a locked root takes hold of its copied parts again.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_holders": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._locked:
            self._hold_parts(weakref.ref(self))
