"""Whether recurrent modules read one step of each row, or whole sequences of them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Literal, ParamSpec, TypeVar

__all__ = ["recurrent_mode", "set_recurrent_mode"]

P = ParamSpec("P")
R = TypeVar("R")


class _Setting(threading.local):
    """The mode in force, one for each thread. `torch.compile` can read it, which it can't a context variable."""

    def __init__(self) -> None:
        self.mode: bool | None = None


_setting = _Setting()


def recurrent_mode() -> bool | None:
    """The mode in force: True for sequences, False for single steps, None outside any `set_recurrent_mode`.

    Modules then follow their own `default_recurrent_mode`.
    """
    return _setting.mode


class set_recurrent_mode:  # noqa: N801
    """Sets how recurrent modules read their data, inside a `with` block or a decorated function.

    Collecting data, a policy sees one step of each environment at a time, and its state comes back through the
    tensordict: `False`. Losses and value estimators compute with recorded sequences, whose last batch dimension is time:
    `True`; losses set that themselves.

    Args:
        mode: True or `"recurrent"`, False or `"sequential"`, None for what each module does by default.

    Raises:
        ValueError: any other mode.

    Example:
        >>> with set_recurrent_mode(True):
        ...     recurrent_mode()
        True
    """

    def __init__(self, mode: bool | Literal["recurrent", "sequential"] | None = True) -> None:
        if isinstance(mode, str):
            names = {"recurrent": True, "sequential": False}
            if mode.lower() not in names:
                raise ValueError(
                    f"the mode is 'recurrent' or 'sequential', True, False or None, got {mode!r}"
                )
            mode = names[mode.lower()]
        self.mode: bool | None = mode
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(_setting.mode)
        _setting.mode = self.mode

    def __exit__(self, *error: object) -> None:
        _setting.mode = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, in this mode."""

        @functools.wraps(function)
        def in_mode(*args: P.args, **kwargs: P.kwargs) -> R:
            with set_recurrent_mode(self.mode):  # made here, where torch.compile sees it
                return function(*args, **kwargs)

        return in_mode
