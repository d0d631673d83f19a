"""`MultiCategorical`: several class indices side by side, each with its own number of classes."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch

from specgen_runtime.specs.arguments import as_index, as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.boxes import BoxList
from specgen_runtime.specs.classes.indices import IndexSpec
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.classes.spec import choose, read_counts
from specgen_runtime.specs.shapes import place_of
from specgen_runtime.specs.torch_functions import stack
from specgen_runtime.specs.variable_dims import changed_shape, changed_tensor, drawn_size, fits, has_variable
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, IndexLike, ShapeLike, SpecValue

__all__ = ["MultiCategorical"]


class MultiCategorical(IndexSpec):
    """Columns of class indices: column `j` of the last dimension holds `0 … nvec[..., j] - 1`.

    Args:
        nvec: the numbers of classes, one per column (a single number is one column); further dimensions may
            give each row its own.
        shape: the shape, ending with that of `nvec`; the shape of `nvec` if None. A dimension of -1 has any
            size.
        device: the device; torch's default device if None.
        dtype: the dtype; it must hold every class.
        mask: the allowed classes, True for allowed, those of one column after those of the other; broadcasts to
            `(*shape[:-1], sum(nvec))`. The rows must not differ then.
        remove_singleton: for a spec of shape `(1,)`, draw classes without that dimension, and let such
            values pass everywhere.

    Raises:
        TypeError: if `nvec` does not hold whole numbers.
        ValueError: if a number of classes is not positive or too large for `dtype`, if `shape` does not
            end with the number of columns, or if rows that differ are masked.
        RuntimeError: if the mask's shape does not fit.
    """

    _tensors = ("_mask", "_counts")
    _fixed_dims = 1
    _side_by_side = True

    def __init__(
        self,
        nvec: ArrayLike,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int64,
        mask: ArrayLike | None = None,
        remove_singleton: bool = False,
    ) -> None:
        counts = read_counts(nvec)
        if not counts.ndim:
            counts = counts.reshape(1)
        size = torch.Size(counts.shape) if shape is None else as_size(shape, variable=True)
        try:
            if size[-1:] != counts.shape[-1:]:
                raise ValueError
            spread = np.broadcast_to(counts, drawn_size(size))
        except ValueError:
            raise ValueError(f"shape must end with that of nvec, {counts.shape}, got {tuple(size)}") from None
        super().__init__(size, device, dtype)
        self._remove_singleton = remove_singleton
        self._mask = None
        rows = counts.reshape(-1, counts.shape[-1])
        differ = len(rows) > 1 and bool((rows != rows[0]).any())
        self._columns: tuple[int, ...] | None = None if differ else tuple(rows[0].tolist())
        self._counts: torch.Tensor | None = torch.tensor(spread, device=self._device) if differ else None
        self._tops: torch.Tensor | None = None
        self._limits = (spread if differ else rows[0]).astype(np.uint64)
        self._check_dtype(self._dtype)
        self.update_mask(mask)

    def _refresh(self) -> None:
        """Rows that do not differ any more are kept as numbers, others as a tensor on the spec's device."""
        if self._counts is None:
            return
        self._tops = self._limits = None
        if self._counts.is_meta or not self._counts.numel():
            return
        rows = self._counts.reshape(-1, self._shape[-1])
        if bool((rows == rows[0]).all()):
            self._columns, self._counts = tuple(rows[0].tolist()), None
        limits = self._columns if self._counts is None else self._counts.cpu()
        self._limits = np.asarray(limits, np.uint64)

    @property
    def nvec(self) -> torch.Tensor:
        """The numbers of classes, int64 of the spec's shape (with size 1 for variable dimensions)."""
        return (self._most + 1).expand(self._size)

    @property
    def space(self) -> BoxList:
        """One box per column."""
        # Not from `nvec`, so that there is something to read on the meta device.
        numbers = self.nvec if self._columns is None else torch.tensor(self._columns).expand(self._size)
        return BoxList.from_nvec(numbers)

    @property
    def remove_singleton(self) -> bool:
        """Whether a spec of shape `(1,)` draws classes without that dimension."""
        return self._remove_singleton

    @property
    def _single(self) -> bool:
        return self._remove_singleton and self._shape == (1,)

    @property
    def _widths(self) -> tuple[int, ...]:  # type: ignore[override]  # where rows differ, there are none
        if self._columns is None:
            raise ValueError(f"the numbers of classes differ from row to row: nvec={self.nvec.tolist()}")
        return self._columns

    @property
    def _groups(self) -> int:
        return self._shape[-1]

    @property
    def _most(self) -> torch.Tensor:
        if self._tops is None or self._tops.device != self._device:
            counts = (
                torch.tensor(self._columns, device=self._device) if self._counts is None else self._counts
            )
            self._tops = counts - 1
        return self._tops

    @property
    def _largest(self) -> int:
        if self._columns is not None:
            return max(self._columns) - 1
        return -1 if self._limits is None else int(self._limits.max(initial=0)) - 1

    def cardinality(self) -> int | float:
        """The number of members, masked or not; `math.inf` if a dimension is variable."""
        if self._counts is None or has_variable(self._shape):
            return super().cardinality()
        return math.prod(self._sizes())

    def _sizes(self) -> list[int]:
        if self._counts is None:
            return super()._sizes()
        sizes: list[int] = self._counts.flatten().tolist()
        return sizes

    # Values

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw classes uniformly among those allowed from torch's global generator, column after column.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: if a mask allows no class.
        """
        drawn = super().rand(shape)
        return drawn.squeeze(-1) if self._single else drawn

    def _drawn(self, shape: ShapeLike | None) -> torch.Tensor:
        lead = self._sized(shape)[: -self.ndim]
        batch = self._rows
        # Within a column the last batch dimension varies slowest and what is in front fastest.
        drawn_shape = (*reversed(batch), *lead)
        if self._columns is not None:
            columns = [
                torch.randint(count, drawn_shape, dtype=self._dtype, device=self._device)
                for count in self._columns
            ]
        else:
            columns = [
                self._drawn_column(column, lead).reshape(drawn_shape) for column in range(self._groups)
            ]
        if batch and (lead or len(batch) > 1):
            order = (*range(len(batch), len(drawn_shape)), *reversed(range(len(batch))))
            columns = [column.permute(order) for column in columns]
        return torch.stack(columns, -1)

    def _drawn_column(self, column: int, lead: torch.Size) -> torch.Tensor:
        """Draw one column whose number of classes differs from row to row."""
        cells = [] if self._limits is None else self._limits[..., column].ravel("F").tolist()
        drawn = [torch.randint(count, lead, dtype=self._dtype, device=self._device) for count in cells]
        if drawn:
            return torch.stack(drawn)
        # There are no rows, or their numbers of classes are on the meta device.
        return torch.empty((self._rows.numel(), *lead), dtype=self._dtype, device=self._device)

    @property
    def _draws_in_order(self) -> bool:
        return False  # a batch is drawn column by column, successive draws are not

    def _not_classes(self, value: torch.Tensor) -> str | None:
        expected = self._shape if self._columns is None else self._shape[-1:]
        if not fits(value.shape, expected):
            return f"expected a shape that ends with {tuple(expected)}, got {tuple(value.shape)}"
        return super()._not_classes(value)

    def _problem(self, value: object) -> str | None:
        return super()._problem(self._with_column(value))

    def is_in(self, val: object) -> bool:
        """Tell whether a tensor belongs to the spec: dtype, device, shape and domain.

        Further dimensions in front are allowed. Never raises.
        """
        return super().is_in(self._with_column(val))

    def _with_column(self, value: Any) -> Any:
        """The value with the dimension that `remove_singleton` has removed from it."""
        if self._single and isinstance(value, torch.Tensor) and not fits(value.shape, self._shape):
            return value.unsqueeze(-1)
        return value

    def project(self, val: torch.Tensor) -> torch.Tensor:
        """Map a tensor into the spec: the nearest allowed classes; a member comes back as the same object.

        Raises:
            TypeError: if it is not a tensor.
            ValueError: if its shape does not end with the spec's, or a mask allows no class.
        """
        whole = self._with_column(val)
        if whole is val:
            return super().project(val)
        return val if self.is_in(val) else super().project(whole).squeeze(-1)

    def encode(self, val: Any, *, ignore_device: bool = False) -> torch.Tensor:
        """Turn class indices into a tensor of the spec; a tensor comes back as it is.

        Raises:
            RuntimeError: if the shape is another one (singleton dimensions may differ for arrays).
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a class is out of range or masked.
        """
        whole = self._with_column(val)
        encoded = super().encode(whole, ignore_device=ignore_device)
        return encoded if whole is val else encoded.squeeze(-1)

    # Conversions

    def index(self, index: Any, tensor_to_index: SpecValue) -> SpecValue:
        """Choose from a tensor, along its last dimension, what belongs to the class of each column.

        The last dimension of the tensor holds one entry per class, those of one column after those of the
        other, as for `MultiOneHot`.

        Args:
            index: classes, one for each column along the last dimension; broadcasts to the batch.
            tensor_to_index: `(*batch, sum(nvec))`.

        Returns:
            `(*batch, columns)`.

        Raises:
            ValueError: if `index` does not hold classes of the spec, the tensor has fewer entries than there
                are classes, or rows differ.
        """
        problem = self._index_problem(index)
        if problem is not None:
            raise ValueError(f"cannot index: {problem}")
        if self._columns is None:
            raise ValueError(
                f"cannot index: rows of {self._dims.text} differ, so that a class has no one place"
            )
        return choose(tensor_to_index, self._places(index.long()), sum(self._columns))

    def to_one_hot(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Turn classes into one-hot vectors, one after the other along the last dimension.

        Args:
            val: `(..., columns)`.
            safe: check that `val` belongs to the spec; by default the environment variable
                `CHECK_SPEC_ENCODE`.

        Returns:
            bool, `(..., sum(nvec))`; for rows that differ a nested tensor of what the specs of `unbind(0)` give.

        Raises:
            AssertionError: if `safe` is set and `val` does not belong to the spec.
            RuntimeError: if a class is out of range, the number of columns is another one, or rows differ and
                a nested tensor can't hold them.
        """
        val = self._with_column(val)
        self._check(val, safe)
        problem = None if val.is_meta else self._not_classes(val)
        if problem is not None:
            raise RuntimeError(f"cannot convert: {problem}")
        classes = val.long()
        if self._columns is not None:
            return self._vectors(classes, torch.bool)
        parts = self.unbind(0)
        if val.ndim != self.ndim or any(part._columns is None for part in parts):
            raise RuntimeError(
                f"rows of {self._dims.text} differ: a nested tensor can only hold one value whose rows differ "
                f"along its first dimension; got a value of shape {tuple(val.shape)}"
            )
        return torch.nested.nested_tensor(
            [part.to_one_hot(row, safe=False) for part, row in zip(parts, classes, strict=True)]
        )

    def to_one_hot_spec(self) -> TensorSpec:
        """The spec of what `to_one_hot` returns, with the same mask.

        Returns:
            `MultiOneHot`; for rows that differ a stack of those of `unbind(0)`.
        """
        if self._columns is not None:
            shape = (*self._shape[:-1], sum(self._columns))
            return MultiOneHot(self._columns, shape, self._device, mask=self._mask)
        return stack([part.to_one_hot_spec() for part in self.unbind(0)])

    # Shapes, text and comparison

    def _indexed(self, index: IndexLike) -> Self:
        """As for a tensor: the index may reach into the columns, each of which stands for itself."""
        full = as_index(index, self._shape, self._dims.text)
        last = full[-1]
        if isinstance(last, slice) and last == slice(None):
            return super()._indexed(full[:-1])
        if self._mask is not None:
            raise IndexError(f"cannot take columns of {self._dims.text}: it is masked")
        counts = changed_tensor(lambda tensor: tensor[full], self.nvec, self._shape)
        shape = changed_shape(lambda tensor: tensor[full], self._shape)
        if not counts.numel():
            raise IndexError(f"nothing is left of {self._dims.text}: an index takes no column, or no row")
        # A single class keeps a dimension, but its values need not have it.
        single = self._remove_singleton or not shape
        return type(self)(counts, shape or (1,), self._device, self._dtype, None, single)

    def _selected(self, dim: int, index: torch.Tensor) -> Self:
        if place_of(self._dims, dim) < len(self._free) or index.ndim > 1:
            return super()._selected(dim, index)
        return self._indexed((..., index.reshape(-1)))

    def _same_domain(self, other: Self) -> bool:
        return (
            self._columns == other._columns
            and self._remove_singleton == other._remove_singleton
            and super()._same_domain(other)
        )

    def _domain_text(self) -> str:
        if self._columns is not None:
            return f"nvec={list(self._columns)}" + self._masked_text()
        return "nvec=?" if self._most.is_meta else f"nvec={self.nvec.tolist()}"
