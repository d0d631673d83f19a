"""Numbers that an optimizer learns beside the networks of a loss, such as the temperature of SAC, and their bounds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specgen_runtime.objectives.parameters import device_of


def add_learnable(
    loss: nn.Module,
    name: str,
    init: float | None,
    *,
    low: float | None = None,
    high: float | None = None,
    fixed: bool = False,
) -> None:
    """Register a number that is learned, of shape ``[]`` and the default dtype, where the parameters of the loss are.

    Args:
        loss: the loss, with its networks.
        name: the parameter; its bounds become the buffers ``min_<name>`` and ``max_<name>``.
        init: the first value; None for a number that this loss does not have.
        low: the lower bound, None for none.
        high: the upper bound, None for none.
        fixed: make it a buffer, which no optimizer changes.

    Raises:
        ValueError: if the lower bound is above the upper one.
    """
    if low is not None and high is not None and low > high:
        raise ValueError(f"the lower bound of {name} is {low}, above its upper bound, {high}")
    device = device_of(loss.parameters())

    def tensor(value: float | None) -> Tensor | None:
        return None if value is None else torch.tensor(value, dtype=torch.get_default_dtype(), device=device)

    first = tensor(init)
    if fixed or first is None:
        loss.register_buffer(name, first)
    else:
        loss.register_parameter(name, nn.Parameter(first))
    loss.register_buffer(f"min_{name}", tensor(low))
    loss.register_buffer(f"max_{name}", tensor(high))


def exponential_of(loss: nn.Module, name: str) -> Tensor:
    """The exponential of a learned number as the loss reads it, between its bounds; without gradients.

    Raises:
        AttributeError: if the loss has no such number, with its parameters.
    """
    value, low, high = (getattr(loss, one) for one in (name, f"min_{name}", f"max_{name}"))
    if value is None:
        raise AttributeError(f"{type(loss).__name__} learns no {name!r}, with its parameters")
    bounded: Tensor = value.detach() if low is None and high is None else value.detach().clamp(low, high)
    return bounded.exp()


def moved_between(value: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """A learned number, itself moved between its bounds (those that are not None) first."""
    if low is not None or high is not None:
        value.data.clamp_(low, high)
    return value


def read_between(value: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """A learned number as read between its bounds; its gradient is that of the identity, outside of them too."""
    if low is None and high is None:
        return value
    return value + (value.clamp(low, high) - value).detach()
