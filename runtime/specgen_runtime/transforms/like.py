"""Derives the spec of what a transform writes from the spec of what it reads."""

from __future__ import annotations

import torch
from torch import Tensor

from specgen_runtime.specs import Bounded, Categorical, TensorSpec, Unbounded
from specgen_runtime.specs.arguments import integer_range
from specgen_runtime.specs.boxes import ContinuousBox
from specgen_runtime.specs.classes.spec import ClassSpec

__all__ = [
    "bounded_like",
    "box_of",
    "boxed",
    "flag_like",
    "limits",
    "unbounded_like",
]


def unbounded_like(spec: TensorSpec, dtype: torch.dtype | None = None) -> TensorSpec:
    """Any value of the shape and device of `spec` (and of its dtype, unless another is given)."""
    return Unbounded(shape=spec.shape, dtype=spec.dtype if dtype is None else dtype, device=spec.device)


def bounded_like(spec: TensorSpec, low: float, high: float, dtype: torch.dtype | None = None) -> TensorSpec:
    """Values in ``[low, high]`` of the shape and device of `spec`; an infinite bound is the dtype's limit."""
    dtype = _dtype(spec) if dtype is None else dtype
    least, most = limits(dtype)
    low, high = max(low, least), min(high, most)
    return Bounded(low=low, high=high, shape=spec.shape, dtype=dtype, device=spec.device)


def flag_like(spec: TensorSpec) -> TensorSpec:
    """A truth value of the shape and device of `spec`."""
    return Categorical(2, shape=spec.shape, dtype=torch.bool, device=spec.device)


def shaped_like(spec: TensorSpec, shape: tuple[int, ...], instead: int = 0) -> TensorSpec:
    """Any value of the dtype and device of `spec`, with the dimensions `shape` behind its own, or `instead` of the last."""
    lead = spec.shape[: len(spec.shape) - instead]
    return Unbounded(shape=(*lead, *shape), dtype=spec.dtype, device=spec.device)


def box_of(spec: TensorSpec) -> tuple[Tensor, Tensor]:
    """The least and the largest values of `spec`, element by element; infinite ones for floats without bounds."""
    dtype = _dtype(spec)
    if isinstance(spec, Bounded) and isinstance(spec.space, ContinuousBox):
        return spec.space.low.expand(spec.shape), spec.space.high.expand(spec.shape)
    low, high = (0, 1) if isinstance(spec, ClassSpec) else limits(dtype)
    if isinstance(spec, Categorical) and dtype != torch.bool:
        high = spec.n - 1
    blank = torch.zeros(spec.shape, dtype=dtype, device=spec.device)
    return torch.full_like(blank, low), torch.full_like(blank, high)


def boxed(low: Tensor, high: Tensor) -> TensorSpec:
    """The spec of values between two tensors; unbounded where both ends are those of the dtype everywhere."""
    dtype, shape = low.dtype, low.shape
    if dtype == torch.bool:
        return Categorical(2, shape=shape, dtype=torch.bool, device=low.device)
    if dtype.is_floating_point:
        low = low.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        high = high.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        free = bool((low.isinf() & high.isinf()).all())
    else:
        least, most = limits(dtype)
        free = bool(((low == least) & (high == most)).all())
    if free:
        return Unbounded(shape=shape, dtype=dtype, device=low.device)
    return Bounded(low=low, high=high, shape=shape, dtype=dtype, device=low.device)


def limits(dtype: torch.dtype) -> tuple[float, float]:
    """The least and the largest value of a dtype; infinite ones of floats."""
    return (-torch.inf, torch.inf) if dtype.is_floating_point else integer_range(dtype)


def _dtype(spec: TensorSpec) -> torch.dtype:
    if spec.dtype is None:
        raise TypeError("a Composite has no dtype; give the key of one of its entries")
    return spec.dtype
