"""`LeafSpec`: what the specs of single tensors share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Self, cast

import torch

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.specs.arguments import as_device, as_dtype, as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.boxes import Box
from specgen_runtime.specs.shapes import Change, with_variable
from specgen_runtime.specs.values import checks_encode, equal, first_false, to_spec_array
from specgen_runtime.specs.variable_dims import (
    Remap,
    changed_shape,
    changed_tensor,
    drawn_size,
    first_of_equal,
    fits,
    has_variable,
    single,
)
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, NestedKey, ShapeLike

__all__ = ["LeafSpec"]


class LeafSpec(TensorSpec[torch.Tensor]):
    """The spec of one tensor.

    Subclasses name in `_tensors` the attributes that hold a tensor per element (bounds, masks): their
    leading dimensions are the spec's free ones (with size 1 where they are variable), and they follow it
    through every change of shape or device.
    """

    _tensors: ClassVar[tuple[str, ...]] = ()
    _always_checked: ClassVar[bool] = False
    """Whether `encode` always checks the domain, not only on request."""

    _size: torch.Size
    """The shape of values drawn without dimensions in front: `_shape` with 1 for variable dimensions."""
    _device: torch.device
    _dtype: torch.dtype

    def __init__(
        self,
        shape: ShapeLike,
        device: DEVICE_TYPING | None,
        dtype: torch.dtype | None,
    ) -> None:
        self._shape = as_size(shape, variable=True)
        self._size = drawn_size(self._shape)
        self._device = as_device(device)
        self._dtype = as_dtype(dtype)

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self._dtype

    @property
    def domain(self) -> str:
        """`"continuous"` for floats, `"discrete"` for integers and bools."""
        return "continuous" if self._dtype.is_floating_point else "discrete"

    @property
    @abstractmethod
    def space(self) -> Box:
        """The domain of the values."""

    # Values

    def zero(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Return zeros, whether or not 0 belongs to the domain."""
        return torch.zeros(self._sized(shape), dtype=self._dtype, device=self._device)

    def one(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Return ones, whether or not 1 belongs to the domain."""
        return torch.ones(self._sized(shape), dtype=self._dtype, device=self._device)

    def rand_sequence(self, length: int) -> torch.Tensor:
        """Draw `length` values at once, in front: exactly those of `length` successive calls of `rand`."""
        if self._draws_in_order or length == 0 or self._device.type != "cpu":
            return self.rand((length,))
        return torch.stack([self.rand() for _ in range(length)])

    @property
    def _draws_in_order(self) -> bool:
        """Whether `rand((T,))` consumes the CPU generator exactly like T calls of `rand()`."""
        return True

    def _sized(self, shape: ShapeLike | None) -> torch.Size:
        return self._size if shape is None else as_size(shape) + self._size

    def cardinality(self) -> int | float:
        """The number of members: exact for discrete domains, `math.inf` for continuous ones."""
        return math.inf if self.domain == "continuous" else super().cardinality()

    # Membership

    def _problem(self, value: object) -> str | None:
        if not isinstance(value, torch.Tensor):
            return f"expected a tensor, got {type(value).__name__}"
        if value.dtype != self._dtype:
            return f"expected dtype {self._dtype}, got {value.dtype}"
        if value.device != self._device:
            return f"expected device {self._device}, got {value.device}"
        if not fits(value.shape, self._shape):
            return f"expected {self._dims.expected}, got {tuple(value.shape)}"
        return None if value.is_meta else self._outside(value)

    def is_in(self, val: object) -> bool:
        """Tell whether a tensor belongs to the spec: dtype, device, shape and domain.

        Further dimensions in front are allowed. NaN belongs to no spec. Never raises.
        """
        return (
            isinstance(val, torch.Tensor)
            and val.dtype == self._dtype
            and val.device == self._device
            and fits(val.shape, self._shape)
            and (val.is_meta or self._contains(val))  # nothing is known of the values of a meta tensor
        )

    def _contains(self, value: torch.Tensor) -> bool:
        """Whether a tensor of the right dtype, device and shape is in the domain: the fast `_outside`."""
        return self._outside(value) is None

    @abstractmethod
    def _outside(self, value: torch.Tensor) -> str | None:
        """Say why a tensor of the right dtype, device and shape is not in the domain."""

    def _first_outside(self, value: torch.Tensor, inside: torch.Tensor, expected: str) -> str | None:
        """Describe the first element that is not `inside`, if there is one."""
        place = first_false(inside)
        if place is None:
            return None
        where = f" at index {place}" if place else ""
        return f"expected {expected}, got {value[place].tolist()}{where}"

    def type_check(self, value: torch.Tensor, key: NestedKey | None = None) -> None:
        """Check the dtype of a tensor, and nothing else.

        Raises:
            TypeError: if the dtype is another one.
        """
        if value.dtype != self._dtype:
            place = "" if key is None else f"key {key!r}: "
            raise TypeError(f"{place}expected dtype {self._dtype}, got {value.dtype}")

    def project(self, val: torch.Tensor) -> torch.Tensor:
        """Map a tensor into the spec; a member comes back as the same object.

        Raises:
            TypeError: if it is not a tensor.
            ValueError: if its shape does not end with the spec's.
        """
        # A compiled function can't branch on values; there a member is mapped to itself.
        if not torch.compiler.is_compiling() and self.is_in(val):
            return val
        if not isinstance(val, torch.Tensor):
            raise TypeError(f"expected a tensor, got {type(val).__name__}")
        if not fits(val.shape, self._shape):
            raise ValueError(f"cannot project: expected {self._dims.expected}, got {tuple(val.shape)}")
        return self._project(val.to(self._device))

    @abstractmethod
    def _project(self, val: torch.Tensor) -> torch.Tensor:
        """Map a tensor of the right shape and device, and of any dtype, into the spec."""

    # NumPy and Python data

    def encode(self, val: ArrayLike, *, ignore_device: bool = False) -> torch.Tensor:
        """Turn numbers, lists or arrays into a tensor of the spec; a tensor comes back as it is.

        A number, and so a tensor without dimensions, is the one element of a shape such as `(1,)`.

        Raises:
            RuntimeError: if the shape is another one (singleton dimensions may differ for arrays).
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a class index is out of range; for other domains only when the environment
                variable `CHECK_SPEC_ENCODE` is 1.
        """
        if isinstance(val, torch.Tensor):
            val = single(val, self._shape)
            if not fits(val.shape, self._shape):
                raise RuntimeError(f"cannot encode: expected {self._dims.expected}, got {tuple(val.shape)}")
            encoded = val
        else:
            encoded = to_spec_array(val, self._dtype, "the value")
            if encoded.shape != self._size:
                encoded = self._fitted(encoded, self._shape)
        return self._checked(encoded, ignore_device)

    def _fitted(self, array: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Reshape, if only singleton dimensions differ."""
        if fits(array.shape, shape) and array.ndim == len(shape):
            return array
        if has_variable(shape) or [size for size in array.shape if size != 1] != [
            size for size in shape if size != 1
        ]:
            raise RuntimeError(f"cannot encode: expected shape {tuple(shape)}, got {tuple(array.shape)}")
        return array.reshape(shape)

    def _checked(self, encoded: torch.Tensor, ignore_device: bool) -> torch.Tensor:
        if not ignore_device and encoded.device != self._device:
            encoded = encoded.to(self._device)
        if self._always_checked or checks_encode():
            checked = encoded.to(self._device)
            if not (checked.is_meta or self._contains(checked)):
                raise AssertionError(f"cannot encode: {self._outside(checked)}")
        return encoded

    def to_numpy(self, val: torch.Tensor, safe: bool | None = None) -> Any:
        """Return the tensor as a NumPy array: the inverse of `encode`."""
        self._check(val, safe)
        return self._to_numpy(val)

    def _to_numpy(self, val: torch.Tensor) -> Any:
        return (val.float() if val.dtype == torch.bfloat16 else val).numpy(force=True)

    # Copies

    def clone(self) -> Self:
        """Return an independent copy."""
        return self._replaced(torch.clone, self._shape, self._device)

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Self:
        """Return the spec on another device or with another dtype (itself if nothing changes)."""
        if isinstance(dest, torch.dtype):
            return self if dest == self._dtype else self._to_dtype(as_dtype(dest))
        device = as_device(dest)
        if device == self._device:
            return self
        return self._replaced(lambda tensor: tensor.to(device), self._shape, device)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        """Return the spec with another dtype."""
        self._check_dtype(dtype)
        new = self.clone()
        new._dtype = dtype
        new._refresh()
        return new

    def _check_dtype(self, dtype: torch.dtype) -> None:
        """Raise a ValueError if `dtype` can't hold the members."""

    def _replaced(self, change: Remap, shape: torch.Size, device: torch.device) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._shape = shape
        new._size = drawn_size(shape)
        new._device = device
        for name in self._tensors:
            tensor: torch.Tensor | None = getattr(self, name)
            setattr(new, name, None if tensor is None else change(tensor))
        new._refresh()
        return new

    def _refresh(self) -> None:
        """Recompute what is derived from the shape, the device and the tensors."""

    # Shapes

    def _remap(self, change: Change) -> Self:
        free = self._free
        shape = changed_shape(change.apply, free) + self._shape[len(free) :]
        return self._replaced(lambda tensor: changed_tensor(change.apply, tensor, free), shape, self._device)

    def _vary(self, dim: int) -> Self:
        def first(tensor: torch.Tensor) -> torch.Tensor:
            found = first_of_equal(tensor, dim)
            if found is None:
                raise ValueError(
                    f"dimension {dim} of {self._dims.text} can't be variable: what is allowed differs along it, "
                    "or it has size 0"
                )
            return found

        return self._replaced(first, with_variable(self._shape, dim), self._device)

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False if isinstance(other, LeafSpec) else NotImplemented
        same = cast("Self", other)
        return (
            self._shape == same._shape
            and self._device == same._device
            and self._dtype == same._dtype
            and self._same_domain(same)
        )

    def _same_domain(self, other: Self) -> bool:
        """Compare the domain with that of a spec of the same class, shape, device and dtype."""
        for name in self._tensors:
            left, right = getattr(self, name), getattr(other, name)
            if left is not right and (left is None or right is None or not equal(left, right)):
                return False
        return True

    def __repr__(self) -> str:
        parts = [part for part in (self._domain_text(),) if part]
        dtype = dtype_name(self._dtype)
        parts += [f"shape={tuple(self._shape)}", f"dtype={dtype}", f"device={self._device}"]
        return f"{self._name()}({', '.join(parts)})"

    def _domain_text(self) -> str:
        return ""
