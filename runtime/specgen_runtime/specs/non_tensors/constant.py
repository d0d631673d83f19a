"""`Constant`: the spec of one value that is not a tensor; what `Choice` makes of wrapped data."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from tensordict import NonTensorStack, is_non_tensor

from specgen_runtime.specs.non_tensors.data import (
    Opaque,
    data_text,
    elements,
    filled,
    nested,
    plain,
    same_data,
)
from specgen_runtime.specs.non_tensors.opaque import OpaqueSpec
from specgen_runtime.specs.shapes import Change, with_variable
from specgen_runtime.specs.variable_dims import changed_shape, changed_tensor

__all__ = ["Constant"]


class Constant(OpaqueSpec):
    """The spec that has one member: these wrapped data.

    Args:
        value: a `NonTensorData` or a `NonTensorStack`; its objects are shared.

    Raises:
        ValueError: if the rows of a stack differ in shape.
    """

    def __init__(self, value: Opaque) -> None:
        if -1 in value.batch_size:
            raise ValueError(f"the rows of a choice must have one shape, got {tuple(value.batch_size)}")
        super().__init__(value.batch_size, value.device)
        self._whole = not isinstance(value, NonTensorStack)
        """Whether one object stands for all places."""
        self._objects: list[Any] = []
        """The objects that differ from each other."""
        found = [self._number(element) for element in ([value.data] if self._whole else elements(value))]
        numbers = torch.tensor(found, dtype=torch.int64)
        self._places = numbers[0].expand(self._shape) if self._whole else numbers.reshape(self._shape)
        """For each place (one, where the dimension is variable) the number of its object."""

    def _number(self, element: Any) -> int:
        for number, known in enumerate(self._objects):
            if same_data(known, element):
                return number
        self._objects.append(element)
        return len(self._objects) - 1

    @property
    def value(self) -> Opaque:
        """The one member, without further dimensions in front; a fresh wrapper of the same objects."""
        return self.rand()

    def _filled(self, sizes: torch.Size) -> Opaque:
        if self._whole:
            return filled(self._objects[0], sizes, self.ndim, self._device)
        return nested(self._looked_up(self._places.expand(sizes).tolist()), sizes, 0, self._device)

    def _looked_up(self, places: Any) -> Any:
        if isinstance(places, list):
            return [self._looked_up(place) for place in places]
        return self._objects[places]

    def _bare(self) -> Any:
        return plain(self.value, self.ndim if self._whole else 0)

    def _outside(self, value: Any) -> str | None:
        if not self._holds(value):
            found = plain(value, 0) if is_non_tensor(value) else value
            return f"expected {data_text(self._bare())}, got {data_text(found)}"
        return None

    def _holds(self, value: Any) -> bool:
        if not is_non_tensor(value):
            return same_data(value, self._bare()) or (self._whole and same_data(value, plain(self.value, 0)))
        if self._whole:
            return all(same_data(element, self._objects[0]) for element in elements(value))
        if -1 in value.batch_size:
            return False
        expected = self._places.expand(value.batch_size).reshape(-1).tolist()
        return same_data(elements(value), self._looked_up(expected))

    def encode(self, val: Any, *, ignore_device: bool = False) -> Opaque:
        """Return the value if the data are the same, wrapped or bare; wrapped data of the right shape stay.

        Raises:
            AssertionError: if they are other data.
        """
        if is_non_tensor(val) and not val.batch_size and self._shape:
            val = val.data
        problem = self._problem(val)
        if problem is not None:
            raise AssertionError(f"cannot encode: {problem}")
        return val if is_non_tensor(val) else self.value

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Return the bare objects: the inverse of `encode`."""
        self._check(val, safe)
        return plain(val, self.ndim if self._whole else 0) if is_non_tensor(val) else val

    def cardinality(self) -> int:
        """One."""
        return 1

    def enumerate(self, use_mask: bool = False) -> Opaque:
        """Return the value with a dimension of size 1 in front."""
        return self.rand((1,))

    # Shapes

    def _shaped(self, shape: torch.Size, places: torch.Tensor) -> Self:
        new = copy.copy(self)
        new._shape = shape
        new._places = places
        return new

    def _remap(self, change: Change) -> Self:
        return self._shaped(
            changed_shape(change.apply, self._shape), changed_tensor(change.apply, self._places, self._shape)
        )

    def _vary(self, dim: int) -> Self:
        first = self._places.narrow(dim, 0, 1)
        if not torch.equal(self._places, first.expand_as(self._places)):
            raise ValueError(
                f"dimension {dim} of {self._dims.text} can't be variable: what is allowed differs along it"
            )
        return self._shaped(with_variable(self._shape, dim), first)

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return (
            self._shape == other._shape
            and self._device == other._device
            and self._whole == other._whole
            and same_data(elements(self.value), elements(other.value))
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({data_text(self._bare())}, shape={tuple(self._shape)}, device={self._device})"
