"""`not_none`: reads what is there only with some parameters."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """The value itself.

    Raises:
        TypeError: if it is None: the parameters that were given need it.
    """
    if value is None:
        raise TypeError("a value is None that these parameters need; see what they say of the arguments")
    return value
