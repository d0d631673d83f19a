"""Tells which modules draw random numbers in their forward, for ensembles under `torch.vmap`."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

VmapRandomness: TypeAlias = Literal["error", "different", "same"]

_RANDOM_MODULES: list[type[nn.Module]] = [_DropoutNd, nn.RReLU]


def add_random_module(module: type[nn.Module]) -> None:
    """Say that a class of modules draws random numbers when called.

    Raises:
        TypeError: if ``module`` is not a class of modules.
    """
    if not (isinstance(module, type) and issubclass(module, nn.Module)):
        raise TypeError(f"add_random_module takes a class of nn.Module, got {module!r}")
    _RANDOM_MODULES.append(module)


def random_modules() -> tuple[type[nn.Module], ...]:
    """The classes of modules that draw random numbers when called."""
    return tuple(_RANDOM_MODULES)


def is_random(module: nn.Module) -> bool:
    """Whether ``module`` or one inside it draws random numbers when called."""
    classes = random_modules()
    return any(isinstance(child, classes) for child in module.modules())


def checked_randomness(value: object) -> VmapRandomness:
    """``value`` if it is one of vmap's randomness modes.

    Raises:
        ValueError: if it is not.
    """
    for mode in get_args(VmapRandomness):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise ValueError(f"vmap_randomness must be 'error', 'different' or 'same', got {value!r}")
