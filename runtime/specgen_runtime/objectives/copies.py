"""Copies of networks that losses make: with tensors of the loss, or with none and a message for who calls them."""

from __future__ import annotations

import copy
from typing import Any, cast

from torch import Tensor, nn

from specgen_runtime.objectives.layers import without_call_overhead
from specgen_runtime.objectives.parameters import meta_tensors


def structure_copied(name: str, module: nn.Module, memo: dict[int, Tensor]) -> nn.Module:
    """A deep copy of a network.

    Args:
        name: what the network is called in the loss, for messages.
        module: the network.
        memo: the tensors of the copy, by the identity of those whose place they take: see `own_tensors` and
            `meta_tensors`.

    Raises:
        TypeError: if it can't be copied.
    """
    try:
        return copy.deepcopy(module, cast("dict[int, Any]", memo))
    except Exception as error:
        raise TypeError(
            f"{name}: the structure of {type(module).__name__} cannot be copied ({error})"
        ) from error


def called_directly(name: str, module: nn.Module, memo: dict[int, Tensor]) -> nn.Module:
    """A copy as `structure_copied` makes it, which only the loss calls: see `without_call_overhead`."""
    made = structure_copied(name, module, memo)
    without_call_overhead(made)
    return made


def stateless(name: str, module: nn.Module) -> nn.Module:
    """A copy without the values of parameters and buffers, which says so when it is called."""
    made = structure_copied(name, module, meta_tensors(module))
    made.register_forward_pre_hook(_Stateless(name))
    return made


class _Stateless:
    """Refuses to run a module whose parameters have been taken out of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: nn.Module, _inputs: object) -> None:
        first = next((tensor for tensor in module.parameters()), None)
        if first is not None and first.is_meta:
            raise RuntimeError(
                f"{self.name} has no parameters: they are in the loss's {self.name}_params. "
                f"Use loss.get_stateful_net('{self.name}'), "
                f"or `with loss.{self.name}_params.to_module(loss.{self.name})`"
            )
