"""torch's functions on specs: `torch.squeeze(spec, 0)`, `torch.stack([spec, spec])` and their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from specgen_runtime.specs.base import TensorSpec

__all__ = ["find_torch_function", "keep_torch_function", "stack"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_ATTRIBUTE = "_torch_functions"
"""Where a class keeps what was registered for it, apart from its parents and subclasses."""


def keep_torch_function(
    cls: type[TensorSpec[Any]], function: Callable[..., Any], implementation: _Function
) -> _Function:
    """Remember what a torch function does for a class of specs, and return it."""
    setattr(cls, _ATTRIBUTE, {**vars(cls).get(_ATTRIBUTE, {}), function: implementation})
    return implementation


def find_torch_function(cls: type[TensorSpec[Any]], function: Callable[..., Any]) -> Callable[..., Any]:
    """What a torch function does for a class of specs; where nobody said, it leaves it to torch to complain."""
    for owner in cls.__mro__:
        found: Callable[..., Any] | None = vars(owner).get(_ATTRIBUTE, {}).get(function)
        if found is not None:
            return found
    return _COMMON.get(function, lambda *args, **kwargs: NotImplemented)


def stack(specs: Sequence[TensorSpec], dim: int = 0) -> TensorSpec:
    """Stack specs along a new dimension: `torch.stack`, which torch declares for tensors only."""
    stacked: Any = torch.stack(specs, dim)  # type: ignore[arg-type]  # registered in `stacks/stacking.py`
    return stacked  # type: ignore[no-any-return]


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
    torch.squeeze: _squeeze,
    torch.unsqueeze: _unsqueeze,
    torch.index_select: _index_select,
    torch.reshape: _reshape,
    torch.flatten: _flatten,
    torch.unflatten: _unflatten,
    torch.unbind: _unbind,
    torch.clone: _clone,
}
