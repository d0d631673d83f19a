"""The parts of a replay buffer as users give them, and as they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from specgen_runtime.data.samplers import Sampler
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.writers import Writer

__all__ = ["kept_on_error", "load_part", "made_part", "positive"]

Part = TypeVar("Part", Storage, Sampler, Writer)


def made_part(part: Part | Callable[[], Part] | None, kind: Any, default: Callable[[], Part]) -> Part:
    """A part that was given, or is made by the function that was given; that of `default` for None.

    Raises:
        TypeError: it is of another kind.
    """
    maker: Any = default if part is None else part
    made: Part = maker() if not isinstance(maker, kind) and callable(maker) else maker
    fits: bool = isinstance(made, kind)
    if not fits:
        name = kind.__name__
        raise TypeError(
            f"{name.lower()} is a {name} of specgen_runtime.data, or a function that makes one; got {made!r}"
        )
    return made


def load_part(part: Sampler | Writer, state: dict[str, Any]) -> None:
    """Let a part go on with a state.

    Raises:
        KeyError: it is that of another kind of part.
    """
    try:
        part.load_state_dict(state)
    except KeyError as error:
        raise KeyError(
            f"the state that was saved has no {error}, which a {type(part).__name__} goes on with: load it into a buffer of the "
            "same parts"
        ) from None


@contextmanager
def kept_on_error(*parts: Sampler | Writer) -> Iterator[None]:
    """Let parts be as they were, where something raises."""
    before = [part.state_dict() for part in parts]
    try:
        yield
    except BaseException:
        for part, state in zip(parts, before, strict=True):
            part.load_state_dict(state)
        raise


def positive(name: str, value: Any) -> int:
    """A number of 1 or more.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is less.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is a whole number, got {value!r}")
    number = int(value)
    if number < 1:
        raise ValueError(f"{name} is 1 or more, got {number}")
    return number
