"""Coefficients of losses that are buffers: in the state dict, and assigned in place."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from specgen_runtime.objectives.domains import UnknownDomainError
from specgen_runtime.objectives.parameters import coefficient, device_of


def add_coefficient(loss: nn.Module, name: str, value: float | Tensor | None) -> None:
    """Register a coefficient as a buffer of the default dtype, where the parameters of the loss are; None stays None.

    Raises:
        ValueError: if it is not one number.
    """
    loss.register_buffer(name, None if value is None else _number(loss, name, value))


def settle(loss: nn.Module, name: str, given: float | str, compute: Callable[[], float]) -> None:
    """Register a coefficient as a buffer; "auto" is computed, now if what that takes is known, else when it is first read.

    Args:
        loss: the loss, with its networks.
        name: the name of the buffer.
        given: the number, or "auto".
        compute: gives what "auto" stands for.

    Raises:
        ValueError: if it is another word.
    """
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(
                f"{type(loss).__name__}: {name.lstrip('_')} is a number or 'auto', got {given!r}"
            )
        loss.register_buffer(name, None)
        try:
            settled(loss, name, compute)
        except UnknownDomainError:
            return
    else:
        loss.register_buffer(name, _number(loss, name, given))


def settled(loss: nn.Module, name: str, compute: Callable[[], float]) -> Tensor:
    """The coefficient that `settle` registered, computed now if it has not been.

    Raises:
        AttributeError: if it registered none.
    """
    if name not in loss._buffers:
        raise AttributeError(f"{type(loss).__name__} has no buffer {name!r}")
    found = loss._buffers[name]
    if found is None:
        found = loss._buffers[name] = _number(loss, name, compute())
    return found


def own_buffer(loss: nn.Module, name: str) -> Tensor:
    """The buffer, also where a property of the loss has its name.

    Raises:
        AttributeError: if there is none.
    """
    found = loss._buffers.get(name)
    if found is None:
        raise AttributeError(f"{type(loss).__name__} has no buffer {name!r}")
    return found


def _number(loss: nn.Module, name: str, value: float | Tensor) -> Tensor:
    return coefficient(name, value, device=device_of(loss.parameters()), dtype=torch.get_default_dtype())
