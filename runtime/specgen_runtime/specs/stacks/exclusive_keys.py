"""Keys that only some of the items of a stack of composites have."""

from __future__ import annotations

from typing import Any

import torch

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.classes.categorical import Binary
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.stacked_composite import StackedComposite
from specgen_runtime.specs.stacks.stacking import stack_specs

__all__ = ["check_no_exclusive_keys", "consolidate_spec", "contains_lazy_spec"]


def contains_lazy_spec(spec: TensorSpec) -> bool:
    """Tell whether a spec is, or holds at any depth, a `Stacked` or a `StackedComposite`."""
    if isinstance(spec, Stacked | StackedComposite):
        return True
    return isinstance(spec, Composite) and any(
        entry is not None and contains_lazy_spec(entry) for entry in spec.values()
    )


def check_no_exclusive_keys(spec: TensorSpec, recurse: bool = True) -> bool:
    """Tell whether every key of a stack of composites is a key of all of its items.

    Args:
        spec: any spec; a leaf has no keys.
        recurse: whether nested specs are asked too.
    """
    if isinstance(spec, StackedComposite):
        names = [set(item.keys()) for item in spec._items]
        if any(found != names[0] or found != set(spec.keys()) for found in names):
            return False
        return not recurse or all(check_no_exclusive_keys(item) for item in spec._items)
    if isinstance(spec, Composite) and recurse:
        return all(entry is None or check_no_exclusive_keys(entry) for entry in spec.values())
    return True


def consolidate_spec(
    spec: Any, recurse_through_entries: bool = True, recurse_through_stack: bool = True
) -> Any:
    """Return a spec whose stacks have the same keys in every item: missing entries are added, without elements.

    A missing leaf gets the class, dtype and number of dimensions of those of the other items, and the size 0: in
    the dimensions in which those differ, or else in all behind the batch dimensions.

    Args:
        spec: any spec; a leaf is returned as it is.
        recurse_through_entries: whether nested composites are treated likewise.
        recurse_through_stack: whether the items of stacks are.

    Raises:
        ValueError: specs of one key are of different classes, or of one that has always elements (a single
            `OneHot`, `MultiOneHot` or `MultiCategorical`).
    """
    if not isinstance(spec, Composite):
        return spec
    if isinstance(spec, StackedComposite):
        items = [item.clone() for item in spec._items]
        if recurse_through_stack:
            items = [consolidate_spec(item, recurse_through_entries, recurse_through_stack) for item in items]
        _add_missing(items)
        result: Composite = spec._with_items(items)
    else:
        result = spec.clone()
    if recurse_through_entries:
        for name, entry in list(result.items()):
            if isinstance(entry, Composite):
                result.set(name, consolidate_spec(entry, recurse_through_entries, recurse_through_stack))
    return result


def _add_missing(items: list[Composite]) -> None:
    """Give each of several composites the keys of the others, in place."""
    found: dict[str, list[TensorSpec | None]] = {}
    for item in items:
        for name, entry in item.items():
            found.setdefault(name, []).append(entry)
    for name, entries in found.items():
        if len(entries) == len(items):
            continue
        empty = _empty(name, entries, items[0].shape)
        for item in items:
            if name not in item:
                item.set(name, None if empty is None else empty.clone())


def _empty(name: str, entries: list[TensorSpec | None], batch_size: torch.Size) -> TensorSpec | None:
    """A spec without elements in place of a missing one, of the kind of those that are there."""
    specs = [entry for entry in entries if entry is not None]
    if not specs:
        return None
    first: Any = specs[0]
    if any(type(entry) is not type(first) for entry in specs):
        kinds = ", ".join(sorted({type(entry).__name__ for entry in specs}))
        raise ValueError(f"key {name!r}: the items have specs of different classes: {kinds}")
    if isinstance(first, Composite):
        without: TensorSpec = first.empty()
        return without
    if isinstance(first, Stacked):
        dim = first._stack_dim
        inner = batch_size[:dim] + batch_size[dim + 1 :]
        parts: list[Any] = [_empty(name, list(first._items), inner)] * len(first._items)
        return stack_specs(parts, dim)
    differ = [len({entry.shape[dim : dim + 1] for entry in specs}) > 1 for dim in range(first.ndim)]
    lead = len(batch_size)
    if any(differ):
        shape = [0 if other else size for size, other in zip(first.shape, differ, strict=True)]
    else:
        shape = [size if dim < lead else 0 for dim, size in enumerate(first.shape)]
    if isinstance(first, Binary):
        return Binary(shape=torch.Size(shape), dtype=first.dtype, device=first.device)
    try:
        empty: TensorSpec = first[(0,) * first.ndim].expand(*shape)
        return empty
    except IndexError:
        raise ValueError(
            f"key {name!r}: there is no {type(first).__name__} without elements to add where the entry is missing"
        ) from None
