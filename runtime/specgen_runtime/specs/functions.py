"""torch's functions on specs: `torch.stack([spec, spec])`, `torch.squeeze(spec, 0)` and their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from specgen_runtime.specs.base import TensorSpec
    from specgen_runtime.specs.shapes import Shaped

__all__ = ["find_torch_function", "keep_torch_function"]

_ATTRIBUTE = "_torch_functions"
"""Where a class keeps what was registered for it, apart from its parents and subclasses."""


def keep_torch_function(
    cls: type[Shaped], function: Callable[..., Any], implementation: Callable[..., Any]
) -> None:
    """Remember what a torch function does for a class of specs."""
    setattr(cls, _ATTRIBUTE, {**vars(cls).get(_ATTRIBUTE, {}), function: implementation})


def find_torch_function(cls: type[Shaped], function: Callable[..., Any]) -> Callable[..., Any] | None:
    """What a torch function does for a class of specs; None if nobody said."""
    for owner in cls.__mro__:
        found: Callable[..., Any] | None = vars(owner).get(_ATTRIBUTE, {}).get(function)
        if found is not None:
            return found
    return _COMMON.get(function)


def _stack(tensors: Sequence[TensorSpec], dim: int = 0, *, out: object = None) -> TensorSpec:
    if out is not None:
        raise NotImplementedError("torch.stack of specs makes a new spec: it can't write into out=…")
    from specgen_runtime.specs.stacks.stacking import (
        stack_specs,  # it builds specs, which stand on this module
    )

    return stack_specs(tensors, dim)


def _squeeze(input: TensorSpec, dim: int | None = None) -> TensorSpec:
    return input.squeeze(dim)


def _unsqueeze(input: TensorSpec, dim: int) -> TensorSpec:
    return input.unsqueeze(dim)


def _index_select(input: TensorSpec, dim: int, index: torch.Tensor) -> TensorSpec:
    return input._selected(dim, index)


def _reshape(input: TensorSpec, shape: Sequence[int]) -> TensorSpec:
    return input.reshape(shape)


def _flatten(input: TensorSpec, start_dim: int = 0, end_dim: int = -1) -> TensorSpec:
    return input.flatten(start_dim, end_dim)


def _unflatten(input: TensorSpec, dim: int, sizes: Sequence[int]) -> TensorSpec:
    return input.unflatten(dim, sizes)


def _unbind(input: TensorSpec, dim: int = 0) -> tuple[TensorSpec, ...]:
    return input.unbind(dim)


def _clone(input: TensorSpec) -> TensorSpec:
    return input.clone()


_COMMON: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.stack: _stack,
    torch.squeeze: _squeeze,
    torch.unsqueeze: _unsqueeze,
    torch.index_select: _index_select,
    torch.reshape: _reshape,
    torch.flatten: _flatten,
    torch.unflatten: _unflatten,
    torch.unbind: _unbind,
    torch.clone: _clone,
}
