"""`ClassSpec`: what specs of classes share, whether these are written as indices or as one-hot vectors."""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from specgen_runtime.specs.arguments import as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.classes.masks import draw_allowed, read_mask
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import exact
from specgen_runtime.specs.variable_dims import has_variable
from specgen_runtime.typing import ArrayLike, ShapeLike, SpecValue

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ClassSpec", "choose", "holds_classes", "read_counts"]

_UNSIGNED = {
    np.dtype(np.bool_): np.dtype("u1"),
    **{np.dtype(f"{kind}{size}"): np.dtype(f"u{size}") for size in (1, 2, 4, 8) for kind in "iu"},
}

_MOST_NUMBERS = 2**27
"""What `enumerate` returns at most: 1 GiB of int64."""


class ClassSpec(LeafSpec):
    """A tensor of classes: rows of one or more groups, each of which holds one class.

    The groups of a row lie side by side along the last dimension, unless every element is a row of its own.
    """

    _tensors: ClassVar[tuple[str, ...]] = ("_mask",)
    _always_checked = True
    _side_by_side: ClassVar[bool] = False
    """Whether class indices have a last dimension for the groups; otherwise there is one group."""

    _widths: tuple[int, ...]
    """How many classes each group of a row has."""
    _mask: torch.Tensor | None
    _offsets: torch.Tensor | None = None
    """Where the classes of each group begin among those of the row; made when it is first needed."""

    @property
    def domain(self) -> str:
        """`"discrete"`, whatever the dtype."""
        return "discrete"

    @property
    def _groups(self) -> int:
        return len(self._widths)

    @property
    def _rows(self) -> torch.Size:
        """The dimensions of the rows (variable ones have size 1)."""
        return self._size[: len(self._size) - self._fixed_dims]

    @abstractmethod
    def _from_classes(self, classes: torch.Tensor) -> torch.Tensor:
        """The values for int64 classes of shape `(*lead, *rows, groups)`."""

    def _from_indices(self, indices: torch.Tensor) -> torch.Tensor:
        """The values for int64 class indices as `to_categorical` gives them."""
        return self._from_classes(self._grouped(indices))

    @abstractmethod
    def _drawn(self, shape: ShapeLike | None) -> torch.Tensor:
        """Draw among all classes."""

    @abstractmethod
    def _not_classes(self, value: torch.Tensor) -> str | None:
        """Say why a tensor is no value of the spec if nothing is masked, whatever its leading dimensions."""

    def _places(self, classes: torch.Tensor) -> torch.Tensor:
        """The places, among the classes of a row, of int64 classes of shape `(..., groups)`."""
        if self._groups == 1:
            return classes
        if self._offsets is None or self._offsets.device != classes.device:
            self._offsets = torch.tensor([0, *accumulate(self._widths[:-1])], device=classes.device)
        return classes + self._offsets

    def _grouped(self, classes: torch.Tensor) -> torch.Tensor:
        return classes if self._side_by_side else classes.unsqueeze(-1)

    def _ungrouped(self, classes: torch.Tensor) -> torch.Tensor:
        return classes if self._side_by_side else classes.squeeze(-1)

    def _vectors(self, classes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """One-hot vectors of int64 classes of shape `(..., groups)`."""
        if dtype == torch.bool and self._groups == 1:  # which is quicker
            return classes == torch.arange(self._widths[0], device=classes.device)
        shape = (*classes.shape[:-1], sum(self._widths))
        return torch.zeros(shape, dtype=dtype, device=classes.device).scatter_(-1, self._places(classes), 1)

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw classes uniformly among those allowed, from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: if the number of classes is unknown, or a mask allows none.
        """
        if self._mask is None:
            return self._drawn(shape)
        rows = self._rows if shape is None else as_size(shape) + self._rows
        if not self._side_by_side:
            return self._from_indices(draw_allowed(self._mask, rows))
        groups = [draw_allowed(allowed, rows) for allowed in self._mask.split_with_sizes(self._widths, -1)]
        return self._from_classes(torch.stack(groups, -1))

    # Masks

    @property
    def mask(self) -> torch.Tensor | None:
        """The allowed classes, bool; None if all are.

        The last dimension holds the classes of all groups, one group after the other; in front of it are the
        dimensions of the rows.
        """
        return self._mask

    def update_mask(self, mask: ArrayLike | None) -> None:
        """Allow only some classes, in place; None allows all.

        Args:
            mask: bools (or the integers 0 and 1), True for allowed; broadcasts to the shape of `mask`.

        Raises:
            RuntimeError: if the shape does not fit.
            ValueError: if it holds something else.
        """
        self._mask = None if mask is None else read_mask(mask, (*self._rows, sum(self._widths)), self._device)

    # All members

    def cardinality(self) -> int | float:
        """The number of members, masked or not; `math.inf` if a dimension is variable."""
        if has_variable(self._shape):
            return math.inf
        members: int = math.prod(self._widths) ** self._rows.numel()
        return members

    def enumerate(self, use_mask: bool = False) -> torch.Tensor:
        """Return all members along a new dimension in front; the last class varies fastest.

        Args:
            use_mask: only those that the mask allows; otherwise the mask is not looked at.

        Raises:
            NotImplementedError: if there are more than memory should hold, or a dimension is variable.
        """
        masked = use_mask and self._mask is not None and not has_variable(self._shape)
        allowed = self._allowed() if masked else None
        count = self.cardinality() if allowed is None else math.prod(map(len, allowed))
        if count * max(1, self._shape.numel()) > _MOST_NUMBERS:
            many = "infinitely many" if count == math.inf else f"about 10^{math.log10(count):.0f}"
            raise NotImplementedError(f"{self._dims.text} can't be enumerated: it has {many} members")
        return self._from_classes(self._combined(allowed, int(count)))

    def _sizes(self) -> list[int]:
        """How many classes there are, group by group and row by row."""
        return [*self._widths] * self._rows.numel()

    def _allowed(self) -> list[torch.Tensor]:
        """The classes that the mask allows, group by group and row by row."""
        assert self._mask is not None
        rows = self._mask.reshape(-1, sum(self._widths))
        return [part.nonzero().flatten() for row in rows for part in row.split_with_sizes(self._widths)]

    def _combined(self, allowed: list[torch.Tensor] | None, count: int) -> torch.Tensor:
        """Every combination of one class of each group of each row, of the allowed ones if they are given.

        Returns:
            int64, `(count, *rows, groups)`.
        """
        sizes = self._sizes() if allowed is None else [len(classes) for classes in allowed]
        numbers = torch.arange(count, device=self._device).unsqueeze(-1)
        if count and len(sizes) != 1:
            steps = list(accumulate(reversed(sizes), mul, initial=1))[-2::-1]
            radix = torch.tensor([steps, sizes], dtype=torch.int64, device=self._device)
            numbers = numbers // radix[0] % radix[1]
        if count and allowed:
            columns = zip(allowed, numbers.unbind(-1), strict=True)
            numbers = torch.stack([classes[places] for classes, places in columns], -1)
        return numbers.reshape(count, *self._rows, self._groups)

    # Conversions

    @abstractmethod
    def to_one_hot(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Turn a value into one-hot vectors; with `safe`, after checking that it belongs to the spec."""

    @abstractmethod
    def to_one_hot_spec(self) -> TensorSpec:
        """The spec of what `to_one_hot` returns, with the same mask."""

    @abstractmethod
    def to_categorical(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Turn a value into class indices; with `safe`, after checking that it belongs to the spec."""

    @abstractmethod
    def to_categorical_spec(self) -> LeafSpec:
        """The spec of what `to_categorical` returns, with the same mask."""

    def _index_problem(self, index: object) -> str | None:
        if not isinstance(index, torch.Tensor):
            return f"expected a tensor of the spec, got {type(index).__name__}"
        return None if index.is_meta else self._not_classes(index)

    # Copies, text and comparison

    def _masked_text(self) -> str:
        return "" if self._mask is None else ", masked"


def holds_classes(array: NDArray[Any], counts: NDArray[np.generic]) -> bool:
    """A quick answer for arrays of integers: whether each is at least 0 and below its number of classes.

    False for arrays of other dtypes.

    Args:
        array: at least one dimension.
        counts: the numbers of classes, unsigned; one number without dimensions is the quickest.
    """
    # An index below 0, seen as unsigned, is above any number of classes.
    unsigned = _UNSIGNED.get(array.dtype)
    # Of a small array, the bytes are searched much quicker than `all` is called.
    return unsigned is not None and 0 not in (array.view(unsigned) < counts).tobytes()


def choose(values: SpecValue, places: torch.Tensor, count: int) -> SpecValue:
    """What lies at `places` along the last dimension, the same for all leading ones.

    Args:
        values: `(*batch, n)`.
        places: int64, below `count`, `(*some, k)`, which broadcasts to `(*batch, k)`.
        count: how many entries `n` must be at least.

    Returns:
        `(*batch, k)`.

    Raises:
        ValueError: if there are fewer entries.
    """
    if not values.ndim or values.shape[-1] < count:
        raise ValueError(
            f"cannot index: expected at least {count} entries along the last dimension, one for each "
            f"class, got shape {tuple(values.shape)}"
        )
    chosen: SpecValue = values.gather(-1, places.expand(*values.shape[:-1], places.shape[-1]))
    return chosen


def read_counts(nvec: ArrayLike) -> NDArray[np.int64]:
    """Read numbers of classes.

    Raises:
        TypeError: if they are not whole numbers.
        ValueError: if there is none, or one is not positive.
    """
    counts = exact(nvec, "nvec").numpy()
    if counts.dtype.kind == "f" and counts.size:
        raise TypeError(f"nvec must hold whole numbers, got {nvec!r}")
    if min(counts.flatten().tolist(), default=0) < 1:
        raise ValueError(f"nvec must hold numbers of classes, each at least 1, got {counts.tolist()}")
    return counts
