"""Shapes of stacked specs: which specs can be stacked, and where a change of shape moves the items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.variable_dims import Remap

__all__ = ["check_alike", "first_varying", "item_numbers", "keeps", "with_dim"]

_SOME = 2
"""A size for dimensions that are variable or empty, when a change is tried out."""


def check_alike(specs: Sequence[TensorSpec]) -> None:
    """Check that specs can be stacked: that they are of one kind.

    Raises:
        ValueError: if there is none.
        RuntimeError: naming what differs, or what is not a spec.
    """
    if not specs:
        raise ValueError("cannot stack an empty list of specs")
    for place, spec in enumerate(specs):
        if not isinstance(spec, TensorSpec):
            raise RuntimeError(
                f"the specs cannot be stacked: item {place} is a {type(spec).__name__}, not a spec"
            )
    first = _kind(specs[0])
    for place, spec in enumerate(specs):
        for (name, expected), (_, got) in zip(first, _kind(spec), strict=False):
            if got != expected:
                raise RuntimeError(
                    f"the specs cannot be stacked: item 0 has {name} {expected}, item {place} {got}"
                )


def _kind(spec: TensorSpec) -> list[tuple[str, object]]:
    """What items must have in common, with names."""
    if spec._specs is not None:
        return [("class", "Composite"), ("shape", tuple(spec.shape))]
    item: Any = spec
    while hasattr(item, "_items"):  # stacks count by what is stacked
        item = item._items[0]
    return [
        ("class", type(item).__name__),
        ("dtype", spec.dtype),
        ("device", spec.device),
        ("number of dimensions", spec.ndim),
        ("number of dimensions to stack", len(spec._free)),
    ]


def with_dim(shape: Sequence[int], dim: int, size: int) -> torch.Size:
    """The shape with a further dimension at `dim`."""
    return torch.Size((*shape[:dim], size, *shape[dim:]))


def item_numbers(change: Remap, shape: torch.Size, dim: int) -> torch.Tensor:
    """The places along `dim` of a tensor of `shape`, after a change."""

    def tried(empty: int) -> torch.Tensor:
        sizes = [_SOME if size < 0 else size or empty for size in shape]
        return change(
            torch.arange(sizes[dim], device="cpu").reshape(-1, *(1 for _ in sizes[dim + 1 :])).expand(sizes)
        )

    if 0 not in shape:
        return tried(0)
    try:
        return tried(_SOME)  # where there is no element, none can be followed
    except RuntimeError:
        return tried(0)


def first_varying(numbers: torch.Tensor) -> int | None:
    """The first dimension along which numbers differ."""
    for dim, size in enumerate(numbers.shape):
        if size > 1 and not torch.equal(numbers, numbers.narrow(dim, 0, 1).expand_as(numbers)):
            return dim
    return None


def keeps(change: Remap, shape: torch.Size) -> bool:
    """Whether a change leaves tensors of `shape` as they are."""
    sizes = torch.Size([_SOME if size < 0 else size for size in shape])
    places = torch.arange(sizes.numel(), device="cpu").reshape(sizes)
    return torch.equal(change(places), places)
