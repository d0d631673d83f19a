"""New values for the parameters and buffers of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn

__all__ = ["copy_weights", "sent_weights"]


def copy_weights(module: nn.Module, weights: TensorDictBase | Mapping[str, Any]) -> None:
    """Copy new values into the parameters and buffers of a module; all of them, or none.

    Args:
        module: keeps its tensors, and their dtypes and devices.
        weights: a tensordict as `TensorDict.from_module` makes it, or a state dict.

    Raises:
        KeyError: the weights lack an entry, or have one that the module has not.
        ValueError: an entry has another shape.
    """
    is_tensordict = isinstance(weights, TensorDictBase)
    own: Any = TensorDict.from_module(module).data.flatten_keys(".") if is_tensordict else module.state_dict()
    given: Any = weights.data.flatten_keys(".") if isinstance(weights, TensorDictBase) else weights
    if lacking := sorted({*own.keys()} - {*given.keys()}):
        raise KeyError(f"the weights lack {_listed(lacking)}")
    if further := sorted({*given.keys()} - {*own.keys()}):
        raise KeyError(f"the weights hold {_listed(further)}, which the module has not")
    for name, value in own.items():
        if isinstance(value, Tensor) and given[name].shape != value.shape:
            raise ValueError(
                f"{name!r} of the weights is {list(given[name].shape)}, the module's {list(value.shape)}"
            )
    if is_tensordict:
        with torch.no_grad():
            own.update_(given)
    else:
        module.load_state_dict(weights)


def sent_weights(weights: TensorDictBase | Mapping[str, Any]) -> TensorDictBase | Mapping[str, Any]:
    """Weights as they are sent to other processes: without their part in any graph."""
    if isinstance(weights, TensorDictBase):
        return weights.data
    return {name: each.detach() if isinstance(each, Tensor) else each for name, each in weights.items()}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(map(repr, names[:4])) + more
