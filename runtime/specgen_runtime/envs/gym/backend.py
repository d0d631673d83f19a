"""Which library `GymEnv` makes environments with: Gymnasium; the names by which TorchRL lets one choose."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ContextDecorator
from types import ModuleType
from typing import Any

from specgen_runtime.specs.gymnasium import import_gymnasium

__all__ = ["gym_backend", "set_gym_backend"]


def gym_backend(submodule: str | None = None) -> ModuleType:
    """Return the module `gymnasium`, or one of its submodules, such as `"wrappers"`.

    Raises:
        ImportError: Gymnasium, or the submodule, is not there.
    """
    module: ModuleType = import_gymnasium()
    if submodule is None:
        return module
    return importlib.import_module(f"gymnasium.{submodule.removeprefix('.')}")


class set_gym_backend(ContextDecorator):  # noqa: N801  TorchRL's name
    """Say with which library `GymEnv` makes environments. There is only Gymnasium, so this changes nothing.

    It can be called (`.set()`), used in a `with` statement or as a decorator.

    Args:
        backend: `"gymnasium"`, the module, or a function that returns it.

    Raises:
        ImportError: it is another library.
    """

    def __init__(self, backend: str | ModuleType | Callable[[], Any]) -> None:
        named = backend if isinstance(backend, str | ModuleType) else backend()
        name = named if isinstance(named, str) else named.__name__
        if name != "gymnasium":
            raise ImportError(f"environments are made with Gymnasium, not with {name!r}")
        self.backend: ModuleType = gym_backend()

    def set(self) -> None:
        """Has no effect."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None
