"""The errors that `nn.Module.__getattr__` hides: of properties that raise an AttributeError themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

__all__ = ["TellingModule", "hidden_error"]


class HiddenError(AttributeError):
    """An attribute that the class has, and that could not be computed; the cause is behind it."""


def hidden_error(owner: Any, name: str) -> AttributeError | None:
    """The error behind an attribute that the class has and that could not be computed.

    Returns:
        None if the class has no such attribute.
    """
    if not any(name in base.__dict__ for base in type(owner).__mro__):
        return None
    try:
        object.__getattribute__(owner, name)
    except AttributeError as error:
        first: BaseException = error
        while isinstance(first, HiddenError) and first.__cause__ is not None:
            first = first.__cause__
        found = HiddenError(f"{name!r} could not be told because an internal error was raised: {first!r}")
        found.__cause__ = error
        return found
    return AttributeError(f"{name!r} could not be told at first")


class TellingModule(nn.Module):
    """A module that shows the errors inside its properties."""

    if TYPE_CHECKING:
        __getattr__: None  # type: ignore[misc,assignment]  # so that type checkers find misspelt attributes
    else:

        def __getattr__(self, name: str) -> Any:
            """What the module holds."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if (hidden := hidden_error(self, name)) is not None:
                    raise hidden from hidden.__cause__
                raise
