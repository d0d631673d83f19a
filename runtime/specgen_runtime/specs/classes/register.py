"""`Register`: which value from outside stands for which class, in the order in which they were first seen."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

__all__ = ["Register"]


class Register:
    """Values of a set that is not known beforehand; the first one seen is class 0, and so on.

    Args:
        size: how many classes there are.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._classes: dict[Hashable, int] = {}

    def classes(self, values: Sequence[Hashable]) -> list[int]:
        """The class of each value; new values become new classes.

        Raises:
            AssertionError: if there are more values than classes; nothing is remembered then.
        """
        known = dict(self._classes)
        for value in values:
            known.setdefault(value, len(known))
        if len(known) > self._size:
            newest = list(known)[self._size]
            raise AssertionError(
                f"cannot encode: expected at most {self._size} different values, got one more: {newest!r}"
            )
        self._classes = known
        return [known[value] for value in values]

    def values(self, classes: Sequence[int]) -> list[Hashable]:
        """The value that each class stands for.

        Raises:
            KeyError: if no value was seen for a class.
        """
        seen = list(self._classes)
        for index in classes:
            if index >= len(seen):
                raise KeyError(f"no value was encoded as class {index} yet: {len(seen)} were seen")
        return [seen[index] for index in classes]

    def copy(self) -> Register:
        """A register that knows the same values and goes its own way from here."""
        new = Register(self._size)
        new._classes = dict(self._classes)
        return new
