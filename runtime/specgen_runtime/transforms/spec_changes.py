"""Changes of a group of specs that a user says: a spec, or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from specgen_runtime.specs import Composite, TensorSpec, Unbounded
from specgen_runtime.transforms.keys import leaf_keys
from specgen_runtime.transforms.like import flag_like
from specgen_runtime.typing import NestedKey

__all__ = ["SpecChange", "changed", "like_value"]

SpecChange: TypeAlias = TensorSpec | Callable[[Any], TensorSpec] | None
"""What becomes of a group of specs: a spec in its place, a function of it, or nothing said."""


def changed(specs: Composite, change: SpecChange, written: list[NestedKey]) -> Composite:
    """A group of specs after a change.

    Args:
        specs: the group before it; may be modified.
        change: the change.
        written: the keys that are written: the spec of one entry stands for the only one of them in this group.

    Raises:
        ValueError: the change gives the spec of one entry, and several are written.
    """
    if change is None:
        return specs
    made = change.clone() if isinstance(change, TensorSpec) else change(specs)
    if isinstance(made, Composite):
        return made
    present = [key for key in written if key in leaf_keys(specs)] or written
    if len(present) != 1:
        raise ValueError(
            f"what is written is {', '.join(map(repr, written))}: give a Composite of their specs"
        )
    specs[present[0]] = made
    return specs


def like_value(value: Tensor) -> TensorSpec:
    """Any value of the shape, dtype and device of a tensor."""
    spec = Unbounded(shape=value.shape, dtype=value.dtype, device=value.device)
    return flag_like(spec) if value.dtype is torch.bool else spec
