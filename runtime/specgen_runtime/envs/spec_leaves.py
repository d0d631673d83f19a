"""The leaves of an environment's specs, and how to find their values, also in the items of stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.specs import Composite, StackedComposite, TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["Item", "Leaf", "leaves_of"]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a stack of tensordicts.

    Attributes:
        path: where the stack is, from the root or from the item around it; `()` is that itself.
        dim: the stack dimension, counted from the end of the batch dimensions: negative ones are among them.
        place: which item.
    """

    path: tuple[str, ...]
    dim: int
    place: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a spec.

    Entries of a `StackedComposite` may differ in keys and sizes from item to item: there each item has leaves of
    its own.

    Attributes:
        key: its key; the items of stacks do not show in it.
        spec: with the batch dimensions of the environment, but those along which items were chosen.
        items: the items that it is in, from the outermost on.
    """

    key: NestedKey
    spec: TensorSpec
    items: tuple[Item, ...] = ()

    def find(self, tensordict: TensorDictBase) -> Any:
        """The leaf's value in a root tensordict, or None if there is none."""
        if not self.items:
            return tensordict.get(self.key, None)
        found: Any = tensordict
        path, lead = as_tuple(self.key), tensordict.batch_dims
        for item in self.items:
            if item.path:
                found = found.get(item.path, None)
                path = path[len(item.path) :]
            dim = lead + item.dim
            if not isinstance(found, TensorDictBase) or found.ndim <= dim or found.shape[dim] <= item.place:
                return None
            found = found[(slice(None),) * dim + (item.place,)]
            lead -= item.dim < 0
        return found.get(path, None)

    def batch_of(self, batch_size: torch.Size) -> torch.Size:
        """The dimensions that the leaf's value starts with, in a tensordict of this batch size."""
        sizes = list(batch_size)
        for item in self.items:
            if item.dim < 0:
                del sizes[item.dim]
        return torch.Size(sizes)

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """The part of `(*batch_size)` values, one for each environment, that is about the leaf's items."""
        for item in self.items:
            if item.dim < 0:
                values = values.select(item.dim, item.place)
        return values

    def __str__(self) -> str:
        places = ", ".join(str(item.place) for item in self.items)
        return show_key(self.key) + (f" of item {places}" if places else "")


def leaves_of(spec: Composite) -> tuple[Leaf, ...]:
    """All leaves of a spec of the environment's batch size, but those of which nothing is known."""
    return tuple(_leaves(spec, (), (), (), spec.ndim))


def _leaves(
    spec: TensorSpec | None,
    key: tuple[str, ...],
    path: tuple[str, ...],
    items: tuple[Item, ...],
    batch_ndim: int,
) -> Iterator[Leaf]:
    """The leaves below a part of a spec: `key` from the root, `path` from the innermost of `items`."""
    if isinstance(spec, StackedComposite):
        dim = spec.dim - batch_ndim
        for place, item in enumerate(spec.unbind(spec.dim)):
            inner = (*items, Item(path, dim, place))
            yield from _leaves(item, key, (), inner, batch_ndim - (dim < 0))
    elif isinstance(spec, Composite):
        for name, entry in spec.items():
            yield from _leaves(entry, (*key, name), (*path, name), items, batch_ndim)
    elif spec is not None:
        yield Leaf(join_key(key), spec, items)
