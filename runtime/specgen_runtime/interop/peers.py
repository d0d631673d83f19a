"""Importing the libraries on the other side of the doors, when someone goes through."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["import_sb3", "import_torchrl"]


def import_torchrl(module: str) -> Any:
    """Return a module of TorchRL: it ships no types, so everything of it is `Any`.

    Raises:
        ImportError: it is not installed; the message says which extra brings it.
    """
    return _peer(module, "TorchRL", "torchrl")


def import_sb3(module: str) -> Any:
    """Return a module of Stable-Baselines3.

    Raises:
        ImportError: it is not installed; the message says which extra brings it.
    """
    return _peer(module, "Stable-Baselines3", "stable-baselines3")


def _peer(module: str, name: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this door to {name} needs the package '{package}': pip install 'specgen[peers]'"
        ) from error
