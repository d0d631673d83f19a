"""`OneHot`: classes as one-hot vectors, some of which may be masked."""

from __future__ import annotations

from typing import Any, Self

import torch

from specgen_runtime.specs.arguments import as_count, as_size
from specgen_runtime.specs.boxes import CategoricalBox
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.masks import draw_allowed, read_mask
from specgen_runtime.specs.values import to_spec_array
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["OneHot"]


class OneHot(LeafSpec):
    """One of `n` classes, as a vector with a single 1 along the last dimension.

    Args:
        n: the number of classes.
        shape: the shape, ending with `n`; `(n,)` if None.
        device: the device; torch's default device if None.
        dtype: the dtype.
        mask: bool tensor of allowed classes, True for allowed; its shape broadcasts to `shape`.

    Raises:
        TypeError: if `n` is not a whole number.
        ValueError: if `n` is not positive, or `shape` does not end with it.
        RuntimeError: if the mask's shape does not fit.
    """

    _tensors = ("_mask",)
    _fixed_dims = 1
    _checks_encode = True

    def __init__(
        self,
        n: int,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.bool,
        mask: torch.Tensor | None = None,
    ) -> None:
        self._n = as_count(n, "n")
        size = torch.Size((self._n,)) if shape is None else as_size(shape)
        if size[-1:] != (self._n,):
            raise ValueError(f"the last dimension of shape must be n={self._n}, got shape {tuple(size)}")
        super().__init__(size, device, dtype)
        self._mask: torch.Tensor | None = None
        self._refresh()
        self.update_mask(mask)

    def _refresh(self) -> None:
        self._classes = torch.arange(self._n, device=self._device)

    @property
    def n(self) -> int:
        """The number of classes."""
        return self._n

    @property
    def mask(self) -> torch.Tensor | None:
        """The allowed classes, bool of the spec's shape; None if all are."""
        return self._mask

    @property
    def space(self) -> CategoricalBox:
        """The classes."""
        return CategoricalBox(self._n)

    def update_mask(self, mask: ArrayLike | None) -> None:
        """Allow only some classes, in place; None allows all.

        Args:
            mask: bools, True for allowed; the shape broadcasts to the spec's.

        Raises:
            RuntimeError: if the shape does not fit.
            ValueError: if the mask does not hold bools.
        """
        self._mask = None if mask is None else read_mask(mask, self._shape, self._device)

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw one-hot vectors uniformly among the allowed classes, from torch's global generator.

        Args:
            shape: dimensions to put in front of the spec's own.

        Raises:
            RuntimeError: if a mask allows no class.
        """
        size = self._sized(shape)[:-1]
        if self._mask is None:
            return self._vectors(torch.randint(self._n, size, device=self._device))
        return self._vectors(draw_allowed(self._mask, size))

    def _vectors(self, classes: torch.Tensor) -> torch.Tensor:
        """One-hot vectors of int64 classes, along a new last dimension."""
        vectors = classes.unsqueeze(-1) == self._classes
        return vectors if self._dtype == torch.bool else vectors.to(self._dtype)

    def _outside(self, value: torch.Tensor) -> str | None:
        hot = value == 1
        vectors = (hot | (value == 0)).all(-1) & (hot.sum(-1) == 1)
        problem = self._first_outside(value, vectors, "a vector with a single 1 among zeros")
        if problem is not None or self._mask is None:
            return problem
        return self._first_outside(value, (hot & self._mask).any(-1), "a class that the mask allows")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        """The allowed class with the largest value (the first of several), NaN counting as smallest."""
        scores = val.double()
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        if self._mask is None:
            return self._vectors(scores.argmax(-1))
        if not bool(self._mask.any(-1).all()):
            raise ValueError("cannot project: a row of the mask allows no class")
        # Ranks instead of scores: an allowed -inf must still win over whatever is masked.
        ranks = scores.argsort(dim=-1, descending=True, stable=True).argsort(-1)
        return self._vectors(ranks.masked_fill(~self._mask, self._n).argmin(-1))

    def encode(self, val: ArrayLike, *, ignore_device: bool = False) -> torch.Tensor:
        """Turn class indices, or vectors that are one-hot already, into one-hot tensors of the spec.

        Data of the spec's own shape are taken as one-hot vectors; data of that shape without its last
        dimension as class indices. Tensors may have further dimensions in front.

        Raises:
            RuntimeError: if the shape is neither.
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a vector is not one-hot, or a class is out of range or masked.
        """
        if isinstance(val, torch.Tensor):
            if self._ends_with(val.shape, self._shape):
                return self._checked(val, ignore_device)
            classes = val
            fits = self._ends_with(val.shape, self._shape[:-1])
        else:
            numbers = to_spec_array(val, torch.float64, "the value")
            if numbers.shape == self._shape:
                return self._checked(to_spec_array(val, self._dtype, "the value"), ignore_device)
            fits = numbers.numel() == self._shape[:-1].numel()
            classes = to_spec_array(val, torch.int64, "the class")
            classes = self._fitted(classes, self._shape[:-1]) if fits else classes
        if not fits:
            raise RuntimeError(
                f"cannot encode: expected class indices of shape {tuple(self._shape[:-1])} or one-hot "
                f"vectors of shape {tuple(self._shape)}, got shape {tuple(classes.shape)}"
            )
        given = classes.device
        classes = classes.to(self._device)
        whole = (classes >= 0) & (classes < self._n) & (classes == classes.floor())
        problem = self._first_outside(classes, whole, f"classes 0 … {self._n - 1}")
        if problem is not None:
            raise AssertionError(f"cannot encode: {problem}")
        vectors = self._checked(self._vectors(classes.long()), ignore_device)
        return vectors.to(given) if ignore_device else vectors

    def _to_numpy(self, val: torch.Tensor) -> Any:
        return val.long().argmax(-1).numpy()

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        new = self.clone()
        new._dtype = dtype
        return new

    def _domain_text(self) -> str:
        return f"n={self._n}" + (", masked" if self._mask is not None else "")
