"""Locking a tree of specs against changes."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

__all__ = ["Lockable"]


class Lockable:
    """Something that can be locked together with all that it contains.

    What is locked along with a tree can only be unlocked through the tree's root, as long as that exists.
    """

    _locked: bool = False
    _holds: bool = False
    """Whether the parts were locked along."""
    _holders: list[weakref.ref[Lockable]]
    """Those that directly contain this and locked it along."""

    @abstractmethod
    def _parts(self) -> Iterator[Lockable]:
        """The direct parts that are locked along."""

    @property
    def is_locked(self) -> bool:
        """Whether entries and shape are protected against changes; assigning locks or unlocks."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    @property
    def locked(self) -> bool:
        """Whether entries and shape are protected against changes; the same as `is_locked`."""
        return self._locked

    def lock_(self, recurse: bool | None = None) -> Self:
        """Protect the entries and the shape against changes.

        Args:
            recurse: whether nested parts are locked along; None is True.
        """
        self._locked = True
        if not self._holds and recurse is not False:
            self._holds = True
            for part in self._parts():
                part._holders.append(weakref.ref(self))
                part.lock_()
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allow changes again.

        Args:
            recurse: whether nested parts are unlocked along; None is True.

        Raises:
            RuntimeError: if this, or with `recurse` a nested part, is locked along with another tree, whose root
                must be unlocked first. Nothing is unlocked then.
        """
        if self._is_held() or (recurse is not False and self._shares_parts()):
            raise RuntimeError(
                "cannot unlock a part of a locked Composite: unlock its root (if it is a part of several, "
                "put them under one)"
            )
        self._unlock(recurse is not False)
        return self

    def _unlock(self, recurse: bool) -> None:
        self._locked = self._holds = False
        for part in self._parts():
            part._holders = [holder for holder in part._holders if holder() is not self]
            if recurse:
                part._unlock(recurse)

    def _shares_parts(self) -> bool:
        """Whether something outside this tree holds a part of it."""
        return any(part._is_held(but=self) or part._shares_parts() for part in self._parts())

    def _require_unlocked(self) -> None:
        if self._locked:
            raise RuntimeError("cannot change a locked Composite: call unlock_() on it or on its root first")

    def _is_held(self, but: Lockable | None = None) -> bool:
        living = (holder() for holder in self._holders)
        return any(holder is not None and holder is not but for holder in living)

    # Weak references cannot be copied or pickled; a locked root takes hold of its copied parts again.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_holders": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._holds:
            for part in self._parts():
                part._holders.append(weakref.ref(self))
