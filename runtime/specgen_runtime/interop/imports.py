"""Imports TorchRL and Stable-Baselines3 when one of their adapters is first used."""

from __future__ import annotations

from typing import Any

from specgen_runtime.extras import import_extra

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
    return import_extra(module, f"conversion to and from {name} needs the package '{package}'", "peers")
