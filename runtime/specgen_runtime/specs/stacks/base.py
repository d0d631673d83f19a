"""`SpecStack`: what the stacks of leaves and of composites share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeVar

import torch
from tensordict import is_tensor_collection

from specgen_runtime.specs.arguments import as_size
from specgen_runtime.specs.base import Problem, TensorSpec
from specgen_runtime.specs.keys import say_where
from specgen_runtime.specs.stacks.shapes import StackShapes
from specgen_runtime.specs.stacks.values import join, join_arrays, split, split_data
from specgen_runtime.specs.values import checks_encode
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike

__all__ = ["SpecStack"]

_Item = TypeVar("_Item", bound=TensorSpec)


class SpecStack(StackShapes[_Item]):
    """Specs of one kind along a stack dimension: each item draws, checks and maps its part of a value."""

    _value_name: ClassVar[str] = "tensor"

    def _with_items(self, items: Sequence[_Item]) -> Self:
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
        """Return zeros, whether or not 0 belongs to the domains.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: as `rand`.
        """
        return self._made(lambda item, lead: item.zero(lead), shape)

    def one(self, shape: ShapeLike | None = None) -> Any:
        """Return ones, whether or not 1 belongs to the domains.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: as `rand`.
        """
        return self._made(lambda item, lead: item.one(lead), shape)

    def sample(self, shape: ShapeLike | None = None) -> Any:
        """Draw a value; the same as `rand`."""
        return self.rand(shape)

    def zeros(self, shape: ShapeLike | None = None) -> Any:
        """Return zeros; the same as `zero`."""
        return self.zero(shape)

    def ones(self, shape: ShapeLike | None = None) -> Any:
        """Return ones; the same as `one`."""
        return self.one(shape)

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
        counts = [item.cardinality() for item in self._items if self._counts(item)]
        return math.inf if math.inf in counts else math.prod(counts) if counts else 0

    def enumerate(self, use_mask: bool = False) -> Any:
        """Return all members, along a new dimension in front: every choice of one member of each item.

        Args:
            use_mask: leave out what masks do not allow.

        Raises:
            NotImplementedError: if the members of an item can't be enumerated.
            RuntimeError: if the items' sizes differ, for tensors.
        """
        counted = [item for item in self._items if self._counts(item)]
        members: list[Any] = [item.enumerate(use_mask) for item in counted]
        grid = (
            torch.meshgrid(*(torch.arange(len(rows), device="cpu") for rows in members), indexing="ij")
            if members
            else ()
        )
        chosen = iter([rows[places.reshape(-1)] for rows, places in zip(members, grid, strict=True)])
        count = math.prod(map(len, members)) if members else 0
        rows = [next(chosen) if self._counts(item) else item.zero((count,)) for item in self._items]
        return join(rows, self._stack_dim + 1)

    def _counts(self, item: _Item) -> bool:
        """Whether an item has something to choose from."""
        return True

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
        """Check the dtype of each item's part of a value, and nothing else.

        Args:
            value: a value of the spec.
            key: the entry that `value` belongs to, for the message.

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
        if checks_encode(safe):
            self.assert_is_in(val)
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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return (
            isinstance(other, SpecStack)
            and type(self) is type(other)
            and self._stack_dim == other._stack_dim
            and self._items == other._items
        )
