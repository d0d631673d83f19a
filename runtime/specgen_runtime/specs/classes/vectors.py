"""Specs whose values are one-hot vectors: what `OneHot` and `MultiOneHot` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from specgen_runtime.specs.arguments import as_size
from specgen_runtime.specs.classes.masks import greatest_allowed
from specgen_runtime.specs.classes.register import Register
from specgen_runtime.specs.classes.spec import ClassSpec, choose, holds_classes
from specgen_runtime.specs.values import NUMPY_DTYPES, first_false, to_spec_array
from specgen_runtime.specs.variable_dims import fits, single
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike, SpecValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["VectorSpec"]


class VectorSpec(ClassSpec):
    """One-hot vectors along the last dimension, one for each group."""

    _fixed_dims = 1
    _out_of_range: ClassVar[type[Exception]] = AssertionError
    """What `encode` raises for a class that does not exist."""

    _registers: tuple[Register, ...] | None

    def __init__(
        self,
        widths: tuple[int, ...],
        shape: ShapeLike | None,
        device: DEVICE_TYPING | None,
        dtype: torch.dtype | None,
        use_register: bool,
        mask: ArrayLike | None,
        total_text: str,
    ) -> None:
        total = sum(widths)
        size = torch.Size((total,)) if shape is None else as_size(shape, variable=True)
        if size[-1:] != (total,):
            raise ValueError(
                f"the last dimension of shape must be {total_text}={total}, got shape {tuple(size)}"
            )
        super().__init__(size, device, dtype)
        self._widths = widths
        self._limits = np.array(widths if self._side_by_side else widths[0], np.uint64)
        self._registers = tuple(map(Register, widths)) if use_register else None
        self.update_mask(mask)

    @property
    def use_register(self) -> bool:
        """Whether values from outside become classes in the order in which `encode` first sees them."""
        return self._registers is not None

    @property
    def _class_shape(self) -> torch.Size:
        """The shape of class indices."""
        return self._shape[:-1] + ((self._groups,) if self._side_by_side else ())

    def _refresh(self) -> None:
        if self._registers is not None:
            self._registers = tuple(register.copy() for register in self._registers)

    def _from_classes(self, classes: torch.Tensor) -> torch.Tensor:
        return self._vectors(classes, self._dtype)

    def _drawn(self, shape: ShapeLike | None) -> torch.Tensor:
        rows = self._rows if shape is None else as_size(shape) + self._rows
        drawn = [torch.randint(width, rows, device=self._device) for width in self._widths]
        return self._from_classes(torch.stack(drawn, -1) if len(drawn) > 1 else drawn[0].unsqueeze(-1))

    def _skip_draws(self, length: int) -> None:
        if self._mask is None and self._groups == 1:
            torch.randint(self._widths[0], (length, *self._rows), device=self._device)
        else:
            super()._skip_draws(length)

    def _split(self, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return value.split_with_sizes(self._widths, -1)

    def with_choices(self, value: torch.Tensor) -> torch.Tensor:
        """Vectors `(..., n)` of which those, or those groups, that are all zeros choose the first class instead."""
        groups = []
        for group in self._split(value):
            first = torch.zeros_like(group)
            first[..., 0] = 1
            groups.append(torch.where(group.any(-1, keepdim=True), group, first))
        return torch.cat(groups, -1)

    # Membership

    def _not_classes(self, value: torch.Tensor) -> str | None:
        if value.shape[-1:] != self._shape[-1:]:
            return f"expected {self._shape[-1]} columns, got shape {tuple(value.shape)}"
        place = first_false(self._single(value))
        if place is None:
            return None
        *row, group = place
        found = self._split(value)[group][tuple(row)].tolist()
        where = f" at index {tuple(row)}" if row else ""
        which = f" in group {group}" if self._groups > 1 else ""
        return f"expected a vector with a single 1 among zeros{which}, got {found}{where}"

    def _single(self, value: torch.Tensor) -> torch.Tensor:
        """For each group, `(..., groups)`: whether it has a single 1 among zeros."""
        if value.dtype == torch.bool:
            return self._per_group(value) == 1
        return (self._per_group(value == 1) == 1) & (self._per_group(value != 0) == 1)

    def _contains(self, value: torch.Tensor) -> bool:
        if self._groups == 1 and value.dtype != torch.bool:
            # Quicker than looking at ones and zeros by themselves.
            vectors = torch.equal(self._vectors(value.argmax(-1, keepdim=True), value.dtype), value)
        else:
            vectors = bool(self._single(value).all())
        return vectors and (self._mask is None or bool(((value == 0) | self._mask).all()))

    def _per_group(self, flags: torch.Tensor) -> torch.Tensor:
        """The number of True in each group."""
        if self._groups == 1:
            return flags.sum(-1, keepdim=True)
        return torch.stack([part.sum(-1) for part in self._split(flags)], -1)

    def _outside(self, value: torch.Tensor) -> str | None:
        problem = self._not_classes(value)
        if problem is not None or self._mask is None:
            return problem
        allowed = ((value == 0) | self._mask).all(-1)
        return self._first_outside(value, allowed, "a class that the mask allows")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        """In each group the allowed class with the largest value (the first of several)."""
        masks = [None] * self._groups if self._mask is None else self._split(self._mask)
        greatest = [greatest_allowed(*group) for group in zip(self._split(val), masks, strict=True)]
        return self._from_classes(torch.stack(greatest, -1))

    # NumPy and Python data

    def encode(self, val: Any, *, ignore_device: bool = False) -> torch.Tensor:
        """Turn class indices, or vectors that are one-hot already, into one-hot tensors of the spec.

        Data that have the shape of the spec are taken as one-hot vectors, data that have that of its class
        indices as such. Tensors may have further dimensions in front. With `use_register` all data but
        one-hot tensors are values to be remembered: numbers or texts in the shape of class indices.

        Raises:
            RuntimeError: if the shape is neither.
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a vector is not one-hot, or a class is out of range or masked.
        """
        if not isinstance(val, torch.Tensor):
            encoded, checked = self._encode_data(val)
        elif fits(val.shape, self._shape):
            encoded, checked = self._spelled_out(val), False
        elif self._registers is not None:
            encoded, checked = self._encode_data(val.detach().cpu().numpy())
        else:
            encoded, checked = self._encode_classes(single(val, self._class_shape)), True
        if not checked or self._mask is not None:
            return self._checked(encoded, ignore_device)
        return encoded if ignore_device or encoded.device == self._device else encoded.to(self._device)

    def _encode_data(self, val: Any) -> tuple[torch.Tensor, bool]:
        """One-hot vectors, and whether they are known to be such."""
        if self._registers is not None:
            return self._vectors(self._registered(np.asarray(val), self._registers), self._dtype), True
        if isinstance(val, np.integer) or (
            isinstance(val, np.ndarray) and val.dtype.kind in "iu" and not val.ndim
        ):
            val = val.item()
        width = self._widths[0]
        if type(val) is int and self._size.numel() == width and 0 <= val < width:
            vector = np.zeros(width, NUMPY_DTYPES[self._dtype])
            vector[val] = 1
            encoded = torch.from_numpy(vector).reshape(self._size)
            return encoded if encoded.dtype == self._dtype else encoded.to(self._dtype), True
        numbers = np.asarray(val)
        if numbers.ndim == self.ndim and fits(numbers.shape, self._shape):
            return self._spelled_out(to_spec_array(val, self._dtype, "a one-hot vector")), False
        if numbers.shape == self._class_shape and numbers.ndim and holds_classes(numbers, self._limits):
            classes = torch.from_numpy(numbers.astype(np.int64))
            return self._vectors(self._grouped(classes), self._dtype), True
        classes = to_spec_array(val, torch.int64, "the class")
        return self._encode_classes(self._shaped_classes(classes)), True

    def _encode_classes(self, classes: torch.Tensor) -> torch.Tensor:
        if not fits(classes.shape, self._class_shape):
            raise self._shape_error(classes)
        groups = self._grouped(classes)
        most = (
            self._widths[0] - 1 if self._groups == 1 else torch.tensor(self._widths, device=groups.device) - 1
        )
        inside = (groups >= 0) & (groups <= most)
        if groups.is_floating_point():
            inside &= groups == groups.floor()
        place = first_false(inside)
        if place is not None:
            expected = f"classes 0 … {self._widths[place[-1]] - 1}"
            where = place if self._side_by_side else place[:-1]
            raise self._out_of_range(
                f"cannot encode: expected {expected}, got {groups[place].item()}"
                + (f" at index {where}" if where else "")
            )
        return self._vectors(groups.long(), self._dtype)

    def _shaped_classes(self, classes: torch.Tensor) -> torch.Tensor:
        try:
            return self._fitted(classes, self._class_shape)
        except RuntimeError:
            raise self._shape_error(classes) from None

    def _shape_error(self, classes: torch.Tensor) -> RuntimeError:
        return RuntimeError(
            f"cannot encode: expected class indices of shape {tuple(self._class_shape)} or one-hot "
            f"vectors of shape {tuple(self._shape)}, got shape {tuple(classes.shape)}"
        )

    def _spelled_out(self, vectors: torch.Tensor) -> torch.Tensor:
        """If every group has one class, zeros can only be class indices."""
        only = self._shape[-1] == self._groups and not bool(vectors.any())
        return torch.ones_like(vectors, dtype=self._dtype) if only else vectors

    def _registered(self, values: NDArray[Any], registers: tuple[Register, ...]) -> torch.Tensor:
        """The classes `(*rows, groups)` of values from outside, new ones included."""
        if values.dtype.kind not in "biufUS":
            raise TypeError(f"the value must be numbers or texts, got {values.tolist()!r}")
        places = self._shaped_classes(torch.arange(values.size).reshape(values.shape))
        rows = self._grouped(places)
        columns = values.reshape(-1)[rows.reshape(-1, self._groups).numpy()].T.tolist()
        found = [register.classes(column) for register, column in zip(registers, columns, strict=True)]
        return torch.tensor(found).T.reshape(rows.shape)

    def _to_numpy(self, val: torch.Tensor) -> Any:
        classes = self._indices(val)
        if self._registers is None:
            return classes.numpy(force=True)
        groups = zip(self._registers, self._grouped(classes).unbind(-1), strict=True)
        columns = [np.array(register.values(column.flatten().tolist())) for register, column in groups]
        if len({column.dtype.kind for column in columns}) > 1:
            columns = [column.astype(object) for column in columns]
        return np.stack(columns, -1).reshape(classes.shape)

    # Conversions

    def _indices(self, value: torch.Tensor) -> torch.Tensor:
        """The class of each group, as `to_categorical` gives them: int64."""
        numbers = value.view(torch.uint8) if value.dtype == torch.bool else value.long()
        if self._groups == 1:
            return numbers.argmax(-1, keepdim=self._side_by_side)
        return torch.stack([part.argmax(-1) for part in self._split(numbers)], -1)

    def index(self, index: Any, tensor_to_index: SpecValue) -> SpecValue:
        """Choose from a tensor, along its last dimension, what the ones of one-hot vectors mark.

        ```python
        OneHot(4).index(OneHot(4).encode(2), values)  # values[..., [2]]
        MultiOneHot([3, 2]).index(MultiOneHot([3, 2]).encode([2, 0]), values)  # values[..., [2, 3]]
        ```

        Args:
            index: one-hot vectors.
            tensor_to_index: `(*batch, n)`, where `n` is the size of the last dimension of the spec.

        Returns:
            `(*batch, k)`, where `k` is the number of ones: for each group those of all vectors in order.

        Raises:
            ValueError: if `index` does not hold one-hot vectors, or the tensor has fewer entries than there are
                classes.
        """
        problem = self._index_problem(index)
        if problem is not None:
            raise ValueError(f"cannot index: {problem}")
        places = self._places(self._grouped(self._indices(index))).reshape(-1, self._groups)
        return choose(tensor_to_index, places.T.reshape(-1), sum(self._widths))

    def to_categorical(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Turn one-hot vectors into class indices.

        Args:
            val: one-hot vectors along the last dimension.
            safe: check that `val` belongs to the spec; by default the environment variable
                `CHECK_SPEC_ENCODE`.

        Returns:
            int64, without the last dimension of `val`, or with the groups in its place for several of them.

        Raises:
            AssertionError: if `safe` is set and `val` does not belong to the spec.
            RuntimeError: if the last dimension has another size.
        """
        self._check(val, safe)
        if not val.ndim or val.shape[-1] != self._shape[-1]:
            raise RuntimeError(f"cannot convert: expected {self._shape[-1]} columns, got {tuple(val.shape)}")
        return self._indices(val)

    def to_one_hot(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Return the value: it holds one-hot vectors already.

        Raises:
            AssertionError: if `safe` is set and `val` does not belong to the spec.
        """
        self._check(val, safe)
        return val

    def to_one_hot_spec(self) -> Self:
        """Return the spec: its values are one-hot vectors already."""
        return self

    # Text and comparison

    def _same_domain(self, other: Self) -> bool:
        return (
            self._widths == other._widths
            and self.use_register == other.use_register
            and super()._same_domain(other)
        )
