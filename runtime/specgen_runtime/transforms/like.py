"""Derives the spec of what a transform writes from the spec of what it reads."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specgen_runtime.specs import Bounded, Categorical, TensorSpec, Unbounded
from specgen_runtime.specs.boxes import ContinuousBox

__all__ = ["bounded_like", "cast_like", "flag_like", "mapped_like", "unbounded_like"]


def unbounded_like(spec: TensorSpec, dtype: torch.dtype | None = None) -> TensorSpec:
    """Any value of the shape and device of `spec` (and of its dtype, unless another is given)."""
    return Unbounded(shape=spec.shape, dtype=spec.dtype if dtype is None else dtype, device=spec.device)


def bounded_like(spec: TensorSpec, low: float, high: float, dtype: torch.dtype | None = None) -> TensorSpec:
    """Values in ``[low, high]`` of the shape and device of `spec`; an infinite bound is the dtype's limit."""
    dtype = _dtype(spec) if dtype is None else dtype
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        low, high = max(low, info.min), min(high, info.max)
    return Bounded(low=low, high=high, shape=spec.shape, dtype=dtype, device=spec.device)


def flag_like(spec: TensorSpec) -> TensorSpec:
    """A truth value of the shape and device of `spec`."""
    return Categorical(2, shape=spec.shape, dtype=torch.bool, device=spec.device)


def cast_like(spec: TensorSpec, dtype: torch.dtype) -> TensorSpec:
    """The values of `spec` in another dtype."""
    return mapped_like(spec, lambda value: value.to(dtype), dtype)


def mapped_like(
    spec: TensorSpec, function: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None
) -> TensorSpec:
    """What a monotone function makes of the values of `spec`.

    Args:
        spec: the values that go in.
        function: monotone (rising or falling) in each element, and of the same shape as its argument.
        dtype: the dtype of its results (default: that of `spec`).

    Returns:
        The images of the bounds as bounds; no bounds where there were none, or where a bound has no image.
    """
    dtype = _dtype(spec) if dtype is None else dtype
    # An unbounded spec has the limits of its dtype as its box; they are no bounds.
    if not isinstance(spec, Bounded) or not isinstance(spec.space, ContinuousBox):
        return unbounded_like(spec, dtype)
    ends = torch.stack([function(spec.space.low), function(spec.space.high)]).to(dtype)
    low = ends.amin(0).nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    high = ends.amax(0).nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
    if bool((low.isinf() & high.isinf()).all()):
        return unbounded_like(spec, dtype)
    return Bounded(low=low, high=high, shape=spec.shape, dtype=dtype, device=spec.device)


def _dtype(spec: TensorSpec) -> torch.dtype:
    if spec.dtype is None:
        raise TypeError("a Composite has no dtype; give the key of one of its entries")
    return spec.dtype
