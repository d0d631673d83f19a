"""`torch.stack` of specs: one plain spec of equal ones, a lazy stack of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.stacks.shapes import check_alike, with_dim
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.stacked_composite import StackedComposite

__all__ = ["stack_specs"]


@TensorSpec.implements_for_spec(torch.stack)
def _torch_stack(tensors: Sequence[TensorSpec], dim: int = 0, *, out: object = None) -> TensorSpec:
    if out is not None:
        raise NotImplementedError("torch.stack of specs makes a new spec: it can't write into out=…")
    return stack_specs(tensors, dim)


def stack_specs(specs: Sequence[TensorSpec], dim: int = 0) -> TensorSpec:
    """Stack specs along a new dimension.

    Args:
        specs: leaf specs of one class, dtype, device and number of dimensions; or composites of one shape.
        dim: the place of the new dimension, from `-ndim - 1` to `ndim`.

    Returns:
        Equal specs become one of their class. Leaves that differ in bounds, sizes, classes or masks become a
        `Stacked`, composites that differ in any way a `StackedComposite`.

    Raises:
        ValueError: if there is none, `dim` is out of range, or it would come after the columns of the specs.
        RuntimeError: if they are of different kinds; the message names what differs.
    """
    check_alike(specs)
    items: Any = specs
    first = specs[0]
    if isinstance(first, Composite):
        if not _same_composites(specs):
            return StackedComposite(*items, dim=dim)
        # One may leave its device to its entries.
        first = max(specs, key=lambda spec: spec.device is not None)
    elif any(spec != first for spec in specs[1:]):
        return Stacked(*items, dim=dim)
    single = first.clone().unsqueeze(dim)
    place = dim + single.ndim if dim < 0 else dim
    return single.expand(with_dim(first.shape, place, len(specs)))


def _same_composites(specs: Sequence[TensorSpec]) -> bool:
    devices = {spec.device for spec in specs}
    if None in devices and len(devices) == 2:
        specs = [spec.clone().clear_device_() for spec in specs]
    return all(spec == specs[0] for spec in specs[1:])
