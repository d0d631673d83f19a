"""`SpecStack`: specs of one kind along a stack dimension; what the stacks of leaves and of composites share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from tensordict import is_tensor_collection

from specgen_runtime.specs.arguments import as_index, as_size
from specgen_runtime.specs.base import Problem, TensorSpec
from specgen_runtime.specs.keys import say_where
from specgen_runtime.specs.shapes import Change
from specgen_runtime.specs.stacks.shapes import check_alike, first_varying, item_numbers, keeps, with_dim
from specgen_runtime.specs.stacks.values import join, join_arrays, split, split_data
from specgen_runtime.specs.torch_functions import stack
from specgen_runtime.specs.values import combinations
from specgen_runtime.specs.variable_dims import Remap
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike

__all__ = ["SpecStack"]

_Item = TypeVar("_Item", bound=TensorSpec)

_Changes = Callable[[torch.Size], Remap]
"""The change of a tensor's leading dimensions, given their shape: what an index means depends on it."""

_Picked = tuple[tuple[int, int], ...]
"""A part of what a change results in: dimensions, one after the other, and the place chosen in each."""


class SpecStack(TensorSpec[Any], Generic[_Item]):
    """Specs of one kind, the items, along a stack dimension: each draws, checks and maps its part of a value.

    A change of shape is tried out on a tensor that holds, in each place, the number of the item there. Where the
    numbers come to lie tells which items the result is made of, and along which dimensions.
    """

    _value_name: ClassVar[str] = "tensor"

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
            raise TypeError(f"{self._dims.text} has no length: its first dimension is variable")
        return size

    def __bool__(self) -> bool:
        return True

    def _with_items(self, items: Sequence[_Item]) -> Self:
        """The same stack of other items."""
        return type(self)(*items, dim=self._stack_dim)

    # Drawing

    def rand(self, shape: ShapeLike | None = None) -> Any:
        """Draw a value, item by item, from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: if tensors of different sizes would be stacked along another dimension than the first.
        """
        return self._made(lambda item, lead: item.rand(lead), shape)

    def zero(self, shape: ShapeLike | None = None) -> Any:
        """Return zeros, whether or not 0 belongs to the domains; arguments and errors as for `rand`."""
        return self._made(lambda item, lead: item.zero(lead), shape)

    def one(self, shape: ShapeLike | None = None) -> Any:
        """Return ones, whether or not 1 belongs to the domains; arguments and errors as for `rand`."""
        return self._made(lambda item, lead: item.one(lead), shape)

    def _made(self, make: Callable[[_Item, torch.Size], Any], shape: ShapeLike | None) -> Any:
        """A value of what is made of each item, given the dimensions to put in front."""
        lead = torch.Size() if shape is None else as_size(shape)
        return join([make(item, lead) for item in self._items], len(lead) + self._stack_dim)

    def rand_sequence(self, length: int) -> Any:
        """Draw `length` values, in front: exactly those of successive calls of `rand`."""
        # The draws of the items alternate.
        return join([self.rand() for _ in range(length)], 0) if length else self.rand((0,))

    # Members

    def cardinality(self) -> int | float:
        """The number of members: the product over the items.

        Raises:
            NotImplementedError: if the members of an item can't be counted.
        """
        counts = [item.cardinality() for item in self._items if item._has_values()]
        return math.inf if math.inf in counts else math.prod(counts) if counts else 0

    def enumerate(self, use_mask: bool = False) -> Any:
        """Return all members, along a new dimension in front: every choice of one member of each item.

        Raises:
            NotImplementedError: if the members of an item can't be enumerated.
            RuntimeError: if the items' sizes differ, for tensors.
        """
        counted = [item for item in self._items if item._has_values()]
        members: list[Any] = [item.enumerate(use_mask) for item in counted]
        places, count = combinations([len(rows) for rows in members])
        chosen = iter([rows[place] for rows, place in zip(members, places, strict=True)])
        rows = [next(chosen) if item._has_values() else item.zero((count,)) for item in self._items]
        return join(rows, self._stack_dim + 1)

    def is_in(self, val: object) -> bool:
        """Tell whether each item's part of a value belongs to the item.

        Further dimensions in front are allowed, as are lists and tuples of the items' values. Never raises.
        """
        parts = self._split(val)
        return not isinstance(parts, str) and all(
            item.is_in(part) for item, part in zip(self._items, parts[0], strict=True)
        )

    def _problems(self, value: object) -> Iterator[Problem]:
        parts = self._split(value)
        if isinstance(parts, str):
            yield (), parts
            return
        for place, (item, part) in enumerate(zip(self._items, parts[0], strict=True)):
            for path, what in item._problems(part):
                yield path, f"item {place} of the stack: {what}"

    def type_check(self, value: Any, key: NestedKey | None = None) -> None:
        """Check the dtype of each item's part of a value, which belongs to the entry `key`; and nothing else.

        Raises:
            TypeError: if a dtype is another one.
            ValueError: if the value has no part for each item.
        """
        for item, part in zip(self._items, self._parts_of(value)[0], strict=True):
            item.type_check(part, key)

    def project(self, val: Any) -> Any:
        """Map each item's part of a value into the item; a member comes back as the same object.

        Raises:
            TypeError: if it is not a value of the right type.
            ValueError: if its shape does not end with the spec's.
        """
        if self.is_in(val):
            return val
        parts, dim = self._parts_of(val)
        return join([item.project(part) for item, part in zip(self._items, parts, strict=True)], dim)

    def _is_value(self, value: object) -> bool:
        """Whether something is of the type of a value, or a list of the items' values."""
        return isinstance(value, torch.Tensor | list | tuple) or is_tensor_collection(value)

    def _split(self, value: object) -> tuple[list[Any], int] | str:
        if self._is_value(value):
            return split(value, self.shape, self._stack_dim)
        return f"expected a {self._value_name}, got {type(value).__name__}"

    def _parts_of(self, value: Any) -> tuple[list[Any], int]:
        """Take a value apart."""
        parts = self._split(value)
        if isinstance(parts, str):
            raise (ValueError if self._is_value(value) else TypeError)(parts)
        return parts

    # NumPy and Python data

    def encode(self, val: Any, *, ignore_device: bool = False) -> Any:
        """Turn data into a value, item by item; a value of the right shape comes back as it is.

        Args:
            val: an array, or a tensor; or a list (or, for any stack dimension, a tuple) of the items' data.
            ignore_device: leave the result on the CPU, to be moved later together with others.

        Raises:
            RuntimeError: if there are no data for each item, or their shape is another one.
            ValueError, TypeError, AssertionError: as the items say.
        """
        taken = self._taken_apart(val)
        if isinstance(taken, str):
            raise RuntimeError(f"cannot encode: {taken}")
        parts, dim = taken
        encoded = []
        for place, (item, part) in enumerate(zip(self._items, parts, strict=True)):
            try:
                encoded.append(item.encode(part, ignore_device=ignore_device))
            except (KeyError, RuntimeError, ValueError, TypeError, AssertionError) as error:
                say_where(error, f"item {place} of the stack")
                raise
        whole = not isinstance(val, list | tuple)
        if whole and all(after is before for after, before in zip(encoded, parts, strict=True)):
            return val
        return join(encoded, dim)

    def _taken_apart(self, val: Any) -> tuple[list[Any], int] | str:
        """The items' data and the dimension along which they were stacked; or what is wrong with the data."""
        if isinstance(val, torch.Tensor) or is_tensor_collection(val):
            return self._split(val)  # which may have further dimensions in front
        parts = split_data(val, len(self._items), self._stack_dim)
        return parts if isinstance(parts, str) else (parts, self._stack_dim)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Turn a value into NumPy data: the inverse of `encode`.

        Args:
            val: a value of the spec.
            safe: check that `val` belongs to the spec; by default the environment variable `CHECK_SPEC_ENCODE`.

        Raises:
            ValueError: if the value has no part for each item.
        """
        parts, dim = self._parts_of(val)
        self._check(val, safe)
        return join_arrays(
            [item.to_numpy(part, safe=False) for item, part in zip(self._items, parts, strict=True)], dim
        )

    # Copies

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._with_items([item.clone() for item in self._items])

    def to(self, dest: torch.dtype | DEVICE_TYPING | None) -> Self:
        """Return the spec with each item on another device or in another dtype (itself if nothing changes)."""
        if dest is None:
            return self
        items = [item.to(dest) for item in self._items]
        same = all(after is before for after, before in zip(items, self._items, strict=True))
        return self if same else self._with_items(items)

    def clear_device_(self) -> Self:
        """Forget the device, for composites; leaves keep theirs."""
        for item in self._items:
            item.clear_device_()
        return self

    # Shapes

    @property
    def _free(self) -> torch.Size:
        first = self._items[0]
        return self.shape[: self.ndim - (first.ndim - len(first._free))]

    def _vary(self, dim: int) -> Self:
        if dim == self._stack_dim:
            raise ValueError(
                f"dimension {dim} of {self._dims.text} can't be variable: specs are stacked along it"
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
        text = self._dims.text

        def indexing(shape: torch.Size) -> Remap:
            full = as_index(index, shape, text)
            return lambda tensor: tensor[full]

        return self._remap_by(indexing)

    def _remap(self, change: Change) -> Any:
        return self._remap_by(lambda _: change.apply)

    def _remap_by(self, changes: _Changes) -> Any:
        numbers, errors = [], []
        for shape in self._shapes():
            try:
                numbers.append(item_numbers(changes(shape), shape, self._stack_dim))
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
        varying = [dim for dim in map(first_varying, numbers) if dim is not None]
        if not varying:
            found = {int(tensor.reshape(-1)[0]) for tensor in numbers if tensor.numel()}
            if not found:
                raise IndexError(f"no element of {self._dims.text} is left, which does not tell its items")
            if len(found) == 1:
                return self._changed_item(self._items[found.pop()], changes, picked)
        dim = min(varying, default=0)
        sizes = {tensor.shape[dim] for tensor in numbers}
        if not varying or len(sizes) > 1:
            raise ValueError(
                f"cannot join the stack dimension of {self._dims.text} with one whose size differs among the items"
            )
        parts = [
            self._gathered(
                changes, [tensor.select(dim, place) for tensor in numbers], (*picked, (dim, place))
            )
            for place in range(sizes.pop())
        ]
        return stack(parts, dim)  # one plain spec of equal ones, or a stack; see `stacking.py`

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

        if all(keeps(item_changes(shape), shape) for shape in _shapes_of(item)):
            return item
        if isinstance(item, SpecStack):
            return item._remap_by(item_changes)
        return item._remap(Change(item_changes(item._free)))

    def _shapes(self) -> list[torch.Size]:
        """The free shapes that the stack would have if all its items were like one of them."""
        shapes = [shape for item in self._items for shape in _shapes_of(item)]
        return [with_dim(shape, self._stack_dim, len(self._items)) for shape in dict.fromkeys(shapes)]

    # Comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (
            isinstance(other, SpecStack)
            and type(self) is type(other)
            and self._stack_dim == other._stack_dim
            and self._items == other._items
        )


def _shapes_of(spec: TensorSpec) -> list[torch.Size]:
    return spec._shapes() if isinstance(spec, SpecStack) else [spec._free]
