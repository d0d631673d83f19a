"""`Categorical` and `Binary`: class indices, with the same number of classes for every element."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch

from specgen_runtime.specs.arguments import as_count, as_size
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.classes.indices import IndexSpec
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.classes.spec import choose
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike, SpecValue

__all__ = ["Binary", "Categorical", "ElementSpec"]


class ElementSpec(IndexSpec):
    """Class indices with the same number of classes for every element."""

    _n: int

    def __init__(
        self, n: int, shape: ShapeLike, device: DEVICE_TYPING | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__(shape, device, dtype)
        self._n = n
        self._mask = None
        if n >= 0:
            self._count = n
            self._limits = np.array(n, np.uint64)
        self._check_dtype(self._dtype)

    @property
    def n(self) -> int:
        """The number of classes of each element."""
        return self._n

    @property
    def space(self) -> CategoricalBox:
        """The classes; those of a `Binary` are 0 and 1."""
        return CategoricalBox(self._n)

    @property
    def _widths(self) -> tuple[int, ...]:  # type: ignore[override]  # the number may be provisional
        return (self.n,)

    @property
    def _most(self) -> int | None:
        return self._n - 1

    @property
    def _largest(self) -> int:
        return -1 if self._most is None else self._most

    def _drawn(self, shape: ShapeLike | None) -> torch.Tensor:
        return torch.randint(self.n, self._sized(shape), dtype=self._dtype, device=self._device)

    def index(self, index: Any, tensor_to_index: SpecValue) -> SpecValue:
        """Choose from a tensor, along its last dimension, what belongs to classes.

        ```python
        Categorical(4).index(torch.tensor(2), values)  # values[..., 2]
        Categorical(4, (2,)).index(torch.tensor([3, 1]), values)  # values[..., [3, 1]]
        ```

        Args:
            index: classes. Those of a spec of shape `()` choose one entry for each place of the batch; otherwise
                their last dimension lists the classes, and those in front broadcast to the batch.
            tensor_to_index: `(*batch, n)`.

        Returns:
            `(*batch,)` for a spec of shape `()`, else `(*batch, k)` for `k` classes along the last dimension.

        Raises:
            ValueError: if `index` does not hold classes of the spec, or the tensor has fewer entries than there
                are classes.
        """
        problem = self._index_problem(index)
        if problem is not None:
            raise ValueError(f"cannot index: {problem}")
        if self.ndim:
            return choose(tensor_to_index, index.long(), self._n)
        places = index.long().expand(tensor_to_index.shape[:-1]).unsqueeze(-1)
        chosen: SpecValue = choose(tensor_to_index, places, self._n).squeeze(-1)
        return chosen

    def to_one_hot(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Turn classes into one-hot vectors.

        Args:
            val: classes, any shape.
            safe: check that `val` belongs to the spec; by default the environment variable
                `CHECK_SPEC_ENCODE`.

        Returns:
            bool, `(*val.shape, n)`.

        Raises:
            AssertionError: if `safe` is set and `val` does not belong to the spec.
            RuntimeError: if a class is out of range.
        """
        self._check(val, safe)
        vectors = val.unsqueeze(-1) == torch.arange(self.n, device=val.device)
        if not val.is_meta and int(vectors.count_nonzero()) != val.numel():
            problem = self._first_outside(val, vectors.any(-1), f"classes 0 … {self.n - 1}")
            raise RuntimeError(f"cannot convert: {problem}")
        return vectors

    def to_one_hot_spec(self) -> OneHot:
        """The spec of what `to_one_hot` returns, with the same mask: a `OneHot` of shape `(*shape, n)`."""
        return OneHot(self.n, (*self._shape, self.n), self._device, mask=self._mask)


class Categorical(ElementSpec):
    """Indices `0 … n - 1` of classes.

    Args:
        n: the number of classes; -1 if it is not known yet (see `set_provisional_n`).
        shape: the shape; an integer is one dimension, None is no dimension. A dimension of -1 has any size.
        device: the device; torch's default device if None.
        dtype: the dtype; it must hold `n - 1`.
        mask: the allowed classes, True for allowed; broadcasts to `(*shape, n)`.

    Raises:
        TypeError: if `n` is not a whole number.
        ValueError: if `n` is neither positive nor -1, or too large for `dtype`.
        RuntimeError: if the mask's shape does not fit, or `n` is unknown and there is a mask.
    """

    def __init__(
        self,
        n: int,
        shape: ShapeLike | None = (),
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int64,
        mask: ArrayLike | None = None,
    ) -> None:
        count = as_count(n, "n", smallest=-1)
        if count == 0:
            raise ValueError("n must be at least 1 (or -1 for a number not known yet), got 0")
        self._provisional_n: int | None = None
        super().__init__(count, () if shape is None else shape, device, dtype)
        self.update_mask(mask)

    @property
    def n(self) -> int:
        """The number of classes.

        Raises:
            RuntimeError: if it is unknown and no provisional one was set.
        """
        if self._n >= 0:
            return self._n
        if self._provisional_n is None:
            raise RuntimeError(
                "the number of classes of this Categorical is unknown (n=-1): call set_provisional_n(n) first"
            )
        return self._provisional_n

    def set_provisional_n(self, n: int) -> None:
        """Set the number of classes to draw from, for a spec whose own is unknown (`n=-1`).

        Any class remains a member. Without effect on a spec whose number of classes is known.

        Raises:
            ValueError: if `n` is not positive, or there is a mask over another number of classes.
        """
        count = as_count(n, "n")
        if self._n < 0 and self._mask is not None and self._mask.shape[-1] != count:
            raise ValueError(
                f"the mask is over {self._mask.shape[-1]} classes, got n={count}: remove it first"
            )
        self._provisional_n = count

    @property
    def _most(self) -> int | None:
        if self._n >= 0:
            return self._n - 1
        return None if self._mask is None else self._mask.shape[-1] - 1

    def _same_domain(self, other: Self) -> bool:
        return self._n == other._n and super()._same_domain(other)

    def _domain_text(self) -> str:
        return f"n={self._n}" + self._masked_text()


class Binary(ElementSpec):
    """Tensors of zeros and ones, each element by itself: of two classes, 0 and 1.

    Args:
        n: the number of elements; the shape is then `(n,)`. (The property `n` is the number of classes, 2.)
        shape: the shape; if `n` is given too, it must end with it. A dimension of -1 has any size.
        device: the device; torch's default device if None.
        dtype: the dtype.

    Raises:
        TypeError: if neither `n` nor `shape` is given.
        ValueError: if they contradict each other.
    """

    def __init__(
        self,
        n: int | None = None,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int8,
    ) -> None:
        if shape is None:
            if n is None:
                raise TypeError("Binary needs n or shape")
            shape = (as_count(n, "n", smallest=0),)
        size = as_size(shape, variable=True)
        if n is not None and (size[-1] if size else 0) != n:
            raise ValueError(f"the last dimension of shape must be n={n}, got shape {tuple(size)}")
        super().__init__(2, size, device, dtype)

    def _domain_text(self) -> str:
        return self._masked_text().removeprefix(", ")
