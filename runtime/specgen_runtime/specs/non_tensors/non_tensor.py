"""`NonTensor`: the spec of data that are not tensors, such as strings."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from tensordict import is_non_tensor

from specgen_runtime.specs.arguments import as_count, as_dtype
from specgen_runtime.specs.non_tensors.data import (
    Opaque,
    data_text,
    filled,
    has_sizes,
    nested,
    plain,
    same_data,
)
from specgen_runtime.specs.non_tensors.opaque import OpaqueSpec
from specgen_runtime.specs.shapes import Change, Names, with_variable
from specgen_runtime.specs.variable_dims import changed_shape, drawn_size, fits
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["NonTensor"]


class NonTensor(OpaqueSpec):
    """The spec of any Python objects: strings, dicts, objects of a simulator.

    Values are tensordict's `NonTensorData`, which give one object a shape, and `NonTensorStack`, which hold an
    object for each place. The last `feature_dims` dimensions are inside the `NonTensorData`; the batch dimensions
    before them, and those that `rand(shape)` puts in front, are stacked.

    ```python
    NonTensor(example_data="a", shape=(3,)).rand()  # NonTensorData(data=a, batch_size=torch.Size([3]))
    NonTensor(example_data="a", shape=(3,), batched=True).rand()  # NonTensorStack(["a", "a", "a"])
    ```

    It is the one leaf that need not have a device.

    Args:
        shape: batch and feature dimensions; -1 for those of any size.
        device: the device that values name.
        dtype: kept, without any effect.
        example_data: what `rand`, `zero` and `one` return, wrapped. Values may hold any other object.
        batched: whether all dimensions are batch dimensions; otherwise all are feature dimensions.
        feature_dims: how many of the last dimensions are feature dimensions, instead of `batched`.
            Changes of the shape keep this number, as far as there are as many dimensions.

    Raises:
        ValueError: if both `batched` and `feature_dims` are given, or there are fewer dimensions than
            `feature_dims`.
    """

    def __init__(
        self,
        shape: ShapeLike = (1,),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
        example_data: Any = None,
        batched: bool | None = None,
        feature_dims: int | None = None,
    ) -> None:
        super().__init__(shape, device)
        if batched is not None and feature_dims is not None:
            raise ValueError("batched and feature_dims exclude each other: batched=True is feature_dims=0")
        if feature_dims is None:
            feature_dims = 0 if batched else self.ndim
        self._feature_dims = as_count(feature_dims, "feature_dims", 0)
        if feature_dims > self.ndim:
            raise ValueError(
                f"feature_dims={feature_dims} for shape {tuple(self._shape)}: too few dimensions"
            )
        self._batched = bool(batched)
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._example_data = example_data

    @property
    def dtype(self) -> torch.dtype | None:
        """What was given; it has no effect."""
        return self._dtype

    @property
    def example_data(self) -> Any:
        """The object that `rand`, `zero` and `one` return, wrapped."""
        return self._example_data

    @property
    def batched(self) -> bool:
        """Whether the spec was made with `batched=True`."""
        return self._batched

    @property
    def feature_dims(self) -> int:
        """How many of the last dimensions are inside each `NonTensorData`."""
        return self._feature_dims

    def _filled(self, sizes: torch.Size) -> Opaque:
        return filled(self._example_data, sizes, self._feature_dims, self._device)

    def _outside(self, value: Any) -> None:
        return None

    def encode(self, val: Any, *, ignore_device: bool = False) -> Opaque:
        """Wrap an object in the spec's shape. The result refers to the object; it is not copied.

        Args:
            val: any object, for all places. If there are batch dimensions, a list nested to their sizes holds an
                object for each. Data that are wrapped already stay as they are; a `NonTensorData` without
                dimensions gets the spec's.
            ignore_device: do not move wrapped data to the spec's device.

        Raises:
            RuntimeError: if wrapped data have another shape.
        """
        if is_non_tensor(val):
            if not val.batch_size and self._shape:
                val = val.data
            else:
                return self._moved(val, ignore_device)
        device = None if ignore_device else self._device
        size, kept = drawn_size(self._shape), self._feature_dims
        batch = self._shape[: self.ndim - kept]
        if batch and has_sizes(val, batch):
            return nested(val, size, kept, device)
        return filled(val, size, kept, device)

    def _moved(self, val: Opaque, ignore_device: bool) -> Opaque:
        if not fits(val.batch_size, self._shape):
            raise RuntimeError(f"cannot encode: expected {self._dims.expected}, got {tuple(val.batch_size)}")
        if ignore_device or self._device is None or val.device == self._device:
            return val
        return val.to(self._device)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Return the bare object: the inverse of `encode`. Batch dimensions become lists; bare data stay."""
        self._check(val, safe)
        return plain(val, self._feature_dims) if is_non_tensor(val) else val

    # Shapes

    def _shaped(self, shape: torch.Size) -> Self:
        new = copy.copy(self)
        new._shape = shape
        new._feature_dims = min(self._feature_dims, len(shape))
        return new

    def _remap(self, change: Change) -> Self:
        return self._shaped(changed_shape(change.apply, self._shape))

    def _vary(self, dim: int) -> Self:
        return self._shaped(with_variable(self._shape, dim))

    def _with_batch(self, batch_size: torch.Size, names: Names | None) -> NonTensor:
        shorter = len(self._shape) < len(batch_size) and batch_size[: self.ndim] == self._shape
        return self._shaped(batch_size) if shorter else self

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        """Compare all but `feature_dims` and `batched`: how data are grouped does not change what is a member."""
        if not isinstance(other, NonTensor):
            return NotImplemented
        return (
            type(self) is type(other)
            and self._shape == other._shape
            and self._device == other._device
            and self._dtype == other._dtype
            and same_data(self._example_data, other._example_data)
        )

    def __repr__(self) -> str:
        parts = [f"example_data={data_text(self._example_data)}", f"shape={tuple(self._shape)}"]
        if self._feature_dims != self.ndim:
            parts.append(f"feature_dims={self._feature_dims}")
        parts.append(f"device={self._device}")
        return f"{type(self).__name__}({', '.join(parts)})"
