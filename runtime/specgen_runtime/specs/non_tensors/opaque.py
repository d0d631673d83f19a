"""`OpaqueSpec`: what the specs of data that are not tensors share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import torch
from tensordict import is_non_tensor, is_tensor_collection

from specgen_runtime.specs.arguments import as_device, as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.non_tensors.data import Opaque
from specgen_runtime.specs.variable_dims import drawn_size, fits
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike

__all__ = ["OpaqueSpec"]


class OpaqueSpec(TensorSpec):
    """The spec of Python objects, wrapped with a shape as `NonTensorData` or `NonTensorStack`.

    It has no numbers: no dtype, and `rand`, `zero` and `one` are the same. Its device is optional and only a label.
    """

    _device: torch.device | None

    def __init__(self, shape: ShapeLike, device: DEVICE_TYPING | None) -> None:
        self._shape = as_size(shape, variable=True)
        self._device = None if device is None else as_device(device)

    @property
    def device(self) -> torch.device | None:
        """The device that values name; None allows any."""
        return self._device

    @property
    def domain(self) -> str:
        """Empty: the domain is neither continuous nor discrete."""
        return ""

    # Values

    @abstractmethod
    def _filled(self, sizes: torch.Size) -> Opaque:
        """Make a value with these dimensions."""

    def rand(self, shape: ShapeLike | None = None) -> Opaque:
        """Return a value; nothing is drawn.

        Args:
            shape: dimensions to put in front of the spec's own; values are stacked over them.
        """
        size = drawn_size(self._shape)
        return self._filled(size if shape is None else as_size(shape) + size)

    def zero(self, shape: ShapeLike | None = None) -> Opaque:
        """Return a value; the same as `rand`."""
        return self.rand(shape)

    def one(self, shape: ShapeLike | None = None) -> Opaque:
        """Return a value; the same as `rand`."""
        return self.rand(shape)

    def rand_sequence(self, length: int) -> Opaque:
        """Return `length` values, stacked in front."""
        return self.rand((length,))

    # Membership

    def _problem(self, value: Any) -> str | None:
        if isinstance(value, torch.Tensor) or is_tensor_collection(value):
            if not is_non_tensor(value):
                return f"expected data that are not tensors, got {type(value).__name__}"
            if not fits(value.batch_size, self._shape):
                return f"expected {self._dims.expected}, got {tuple(value.batch_size)}"
            # A value that names no device is not on another one.
            if None not in (value.device, self._device) and value.device != self._device:
                return f"expected device {self._device}, got {value.device}"
        return self._outside(value)

    @abstractmethod
    def _outside(self, value: Any) -> str | None:
        """Say why wrapped data of the right shape and device, or bare data, are no member."""

    def type_check(self, value: Any, key: NestedKey | None = None) -> None:
        """Check that a value is not a tensor, and nothing else.

        Raises:
            TypeError: if it is a tensor or a tensordict.
        """
        if (isinstance(value, torch.Tensor) or is_tensor_collection(value)) and not is_non_tensor(value):
            place = "" if key is None else f"key {key!r}: "
            raise TypeError(f"{place}expected data that are not tensors, got {type(value).__name__}")

    def project(self, val: Any) -> Any:
        """Return a member as it is, or after moving it to the spec's device; nothing else can be mapped.

        Raises:
            TypeError: if it is a tensor or a tensordict.
            ValueError: if its shape does not end with the spec's, or it is another object than is allowed.
        """
        problem = self._problem(val)
        if problem is None:
            return val
        self.type_check(val)
        if is_non_tensor(val) and self._device is not None:
            moved = val.to(self._device)
            problem = self._problem(moved)
            if problem is None:
                return moved
        raise ValueError(f"cannot project: {problem}")

    # Copies and shapes

    def clone(self) -> Self:
        """Return a copy; the objects themselves are shared."""
        return copy.copy(self)

    def to(self, dest: torch.dtype | DEVICE_TYPING | None) -> Self:
        """Return the spec with another device (itself if nothing changes; a dtype, or None, changes nothing)."""
        if dest is None or isinstance(dest, torch.dtype) or as_device(dest) == self._device:
            return self
        new = copy.copy(self)
        new._device = as_device(dest)
        return new
