"""`StackShapes`: the half of stacked specs that can be reshaped and indexed, along the stack dimension as well."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import torch

from specgen_runtime.specs.arguments import as_index
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.variable import Remap
from specgen_runtime.typing import IndexLike

__all__ = ["StackShapes", "check_alike", "with_dim"]

_Item = TypeVar("_Item", bound=TensorSpec)

_Changes = Callable[[torch.Size], Remap]
"""The change of a tensor's leading dimensions, given their shape: what an index means depends on it."""

_Picked = tuple[tuple[int, int], ...]
"""A part of what a change results in: dimensions, one after the other, and the place chosen in each."""

_SOME = 2
"""A size for dimensions that are variable or empty, when a change is tried out."""


class StackShapes(TensorSpec, Generic[_Item]):
    """Specs of one kind, the items, along a stack dimension.

    A change of shape is tried out on a tensor that holds, in each place, the number of the item there. Where the
    numbers come to lie tells which items the result is made of, and along which dimensions.

    Args:
        specs: the items, at least one.
        dim: the stack dimension; a negative one is counted from behind.

    Raises:
        ValueError: if there is no item, `dim` is out of range, or it would come after the columns of the items.
        RuntimeError: if the items are of different kinds.
    """

    _items: tuple[_Item, ...]
    _stack_dim: int

    def __init__(self, *specs: _Item, dim: int) -> None:
        check_alike(specs)
        self._items = specs
        self._stack_dim = dim + specs[0].ndim + 1 if dim < 0 else dim
        if not 0 <= self._stack_dim <= specs[0].ndim:
            raise ValueError(f"dim {dim} is out of range: expected -{specs[0].ndim + 1} … {specs[0].ndim}")
        if self._stack_dim > len(specs[0]._free):
            raise ValueError(
                f"the last dimension of a {type(specs[0]).__name__} holds its columns and stays last"
            )

    @property
    def dim(self) -> int:
        """The dimension along which the specs are stacked, counted from the front."""
        return self._stack_dim

    @property
    def stack_dim(self) -> int:
        """The dimension along which the specs are stacked; the same as `dim`."""
        return self._stack_dim

    @property
    def shape(self) -> torch.Size:
        """The items' shape with the stack dimension; -1 where the items differ or are of variable size."""
        shapes = [item.shape for item in self._items]
        common = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
        return with_dim(common, self._stack_dim, len(self._items))

    def __len__(self) -> int:
        """The size of the first dimension, as of a tensor."""
        size = self.shape[0]
        if size < 0:
            raise TypeError(f"{self._text()} has no length: its first dimension is variable")
        return size

    def __bool__(self) -> bool:
        return True

    @abstractmethod
    def _with_items(self, items: Sequence[_Item]) -> Self:
        """The same stack of other items."""

    # Shapes

    @property
    def _free(self) -> torch.Size:
        first = self._items[0]
        return self.shape[: self.ndim - (first.ndim - len(first._free))]

    def _vary(self, dim: int) -> Self:
        if dim == self._stack_dim:
            raise ValueError(
                f"dimension {dim} of {self._text()} can't be variable: specs are stacked along it"
            )
        place = dim - 1 if dim > self._stack_dim else dim
        return self._with_items([item.make_neg_dim(place) for item in self._items])

    # What comes out may be of another class: an item, or a plain spec where equal items come together.

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        """Return the specs along one dimension: the items themselves along the stack dimension.

        Raises:
            ValueError: if `dim` is out of range, holds the columns of the specs, or is of variable size.
        """
        return super().unbind(dim)

    def _indexed(self, index: IndexLike) -> Any:
        text = self._text()

        def indexing(shape: torch.Size) -> Remap:
            full = as_index(index, shape, text)
            return lambda tensor: tensor[full]

        return self._remap_by(indexing)

    def _remap(self, change: Remap) -> Any:
        return self._remap_by(lambda _: change)

    def _remap_by(self, changes: _Changes) -> Any:
        numbers, errors = [], []
        for shape in self._shapes():
            try:
                numbers.append(_numbered(changes(shape), shape, self._stack_dim))
            except IndexError as error:
                errors.append(error)  # there may be no such place in other items; then they raise it again
        if not numbers:
            raise errors[0]
        return self._gathered(changes, numbers, ())

    def _gathered(self, changes: _Changes, numbers: list[torch.Tensor], picked: _Picked) -> Any:
        """Put together what a change results in.

        Args:
            changes: the change.
            numbers: the item's number in each place of the result, for each of `_shapes` that has these places.
            picked: the part of the result that the numbers are those of.
        """
        varying = [dim for dim in map(_varying, numbers) if dim is not None]
        if not varying:
            found = {int(tensor.reshape(-1)[0]) for tensor in numbers if tensor.numel()}
            if not found:
                raise IndexError(f"no element of {self._text()} is left, which does not tell its items")
            if len(found) == 1:
                return self._changed_item(self._items[found.pop()], changes, picked)
        dim = min(varying, default=0)
        sizes = {tensor.shape[dim] for tensor in numbers}
        if not varying or len(sizes) > 1:
            raise ValueError(
                f"cannot join the stack dimension of {self._text()} with one whose size differs among the items"
            )
        from specgen_runtime.specs.stacks.stacking import (
            stack_specs,  # it makes the classes that stand on this one
        )

        parts = [
            self._gathered(
                changes, [tensor.select(dim, place) for tensor in numbers], (*picked, (dim, place))
            )
            for place in range(sizes.pop())
        ]
        return stack_specs(parts, dim)

    def _changed_item(self, item: _Item, changes: _Changes, picked: _Picked) -> Any:
        """What a part of the result is, if it consists of one item only."""
        dim, count = self._stack_dim, len(self._items)

        def item_changes(shape: torch.Size) -> Remap:
            change = changes(with_dim(shape, dim, count))

            def changed(tensor: torch.Tensor) -> torch.Tensor:
                # The same as the whole stack undergoes, were all its items this one.
                sizes = with_dim(tensor.shape, dim, count)
                result = change(tensor.unsqueeze(dim).expand(sizes))
                for place in picked:
                    result = result.select(*place)
                return result

            return changed

        if all(_keeps(item_changes(shape), shape) for shape in _shapes_of(item)):
            return item
        if isinstance(item, StackShapes):
            return item._remap_by(item_changes)
        return item._remap(item_changes(item._free))

    def _shapes(self) -> list[torch.Size]:
        """The free shapes that the stack would have if all its items were like one of them."""
        shapes = [shape for item in self._items for shape in _shapes_of(item)]
        return [with_dim(shape, self._stack_dim, len(self._items)) for shape in dict.fromkeys(shapes)]


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
    if isinstance(spec, Composite):
        return [("class", "Composite"), ("shape", tuple(spec.shape))]
    item = spec
    while isinstance(item, StackShapes):
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


def _shapes_of(spec: TensorSpec) -> list[torch.Size]:
    return spec._shapes() if isinstance(spec, StackShapes) else [spec._free]


def _numbered(change: Remap, shape: torch.Size, dim: int) -> torch.Tensor:
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


def _varying(numbers: torch.Tensor) -> int | None:
    """The first dimension along which numbers differ."""
    for dim, size in enumerate(numbers.shape):
        if size > 1 and not torch.equal(numbers, numbers.narrow(dim, 0, 1).expand_as(numbers)):
            return dim
    return None


def _keeps(change: Remap, shape: torch.Size) -> bool:
    """Whether a change leaves tensors of `shape` as they are."""
    sizes = torch.Size([_SOME if size < 0 else size for size in shape])
    places = torch.arange(sizes.numel(), device="cpu").reshape(sizes)
    return torch.equal(change(places), places)
