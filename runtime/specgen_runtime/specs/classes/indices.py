"""`IndexSpec`: specs whose values are class indices; what `Categorical`, `Binary` and `MultiCategorical` share."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from specgen_runtime.specs.arguments import integer_range
from specgen_runtime.specs.classes.masks import nearest_allowed
from specgen_runtime.specs.classes.spec import ClassSpec, holds_classes
from specgen_runtime.specs.values import NUMPY_DTYPES, first_false, saturate
from specgen_runtime.typing import ArrayLike

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["IndexSpec"]

_EXACT = 2**24
"""All whole numbers up to this are exact in float32 and float64."""


def _as_array(data: list[Any]) -> NDArray[Any] | list[Any]:
    try:
        return np.asarray(data)
    except ValueError:  # not of one shape; what reads it next says so
        return data


class IndexSpec(ClassSpec):
    """Class indices."""

    @property
    @abstractmethod
    def _most(self) -> int | torch.Tensor | None:
        """The largest indices (int64 on the spec's device, per element, if they differ); None if unknown."""

    _count: int = 0
    """The number of classes, if it is known and the same for all elements."""
    _limits: NDArray[np.generic] | None = None
    """The numbers of classes to compare arrays with, unsigned; None if they are not known or differ by row."""

    # Membership

    def _not_classes(self, value: torch.Tensor) -> str | None:
        if self._are_classes(value):
            return None
        most = self._most
        inside = value >= 0
        if most is not None:
            # Compared as they are: casting first would let 1.5 pass for 1.
            inside &= value <= most
        if value.is_floating_point():
            inside &= (value == value.floor()) & value.isfinite()
        place = first_false(inside)
        if isinstance(most, torch.Tensor) and place is not None:
            most = int(most.expand(value.shape)[place])
        return self._first_outside(value, inside, "classes" if most is None else f"classes 0 … {most}")

    def _are_classes(self, value: torch.Tensor) -> bool | None:
        """A quick answer: whether all are classes, masked or not; None if only `_not_classes` tells."""
        dtype, most = value.dtype, self._most
        if dtype == torch.bool and isinstance(most, int):
            return True if most else None
        nearest = value
        if dtype in (torch.float32, torch.float64):
            nearest = value.floor()
        elif dtype != torch.int64 and (
            dtype != self._dtype or dtype.is_floating_point or dtype == torch.bool
        ):
            return None  # the largest class may not fit
        if isinstance(most, torch.Tensor):
            nearest = torch.minimum(nearest.clamp(min=0), most.to(dtype))
        elif most is not None and most < _EXACT:
            nearest = nearest.clamp(0, most)
        else:
            return None
        return torch.equal(nearest, value)

    def _contains(self, value: torch.Tensor) -> bool:
        classes = self._are_classes(value)
        if classes is None:
            return self._outside(value) is None
        return classes and (self._mask is None or bool(self._unmasked(value).all()))

    def _outside(self, value: torch.Tensor) -> str | None:
        problem = self._not_classes(value)
        if problem is not None or self._mask is None:
            return problem
        return self._first_outside(value, self._unmasked(value), "classes that the mask allows")

    def _unmasked(self, value: torch.Tensor) -> torch.Tensor:
        """Which of some classes the mask allows: bool, in the shape of `value`."""
        assert self._mask is not None
        classes = self._grouped(value.long())
        mask = self._mask.expand(*classes.shape[:-1], self._mask.shape[-1])
        return self._ungrouped(mask.gather(-1, self._places(classes)))

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        """The nearest allowed classes."""
        classes = self._nearest(val)
        if self._mask is not None:
            masks = self._mask.split_with_sizes(self._widths, -1)
            groups = zip(self._grouped(classes).unbind(-1), masks, strict=True)
            classes = self._ungrouped(torch.stack([nearest_allowed(*group) for group in groups], -1))
        return self._from_indices(classes)

    def _nearest(self, val: torch.Tensor) -> torch.Tensor:
        """The nearest classes, int64, masked or not."""
        most = self._most
        if val.is_floating_point():
            if isinstance(most, int) and most < _EXACT and val.dtype in (torch.float32, torch.float64):
                return val.nan_to_num(0.0).round_().clamp_(0, most).long()
            return saturate(val, 0, torch.iinfo(torch.int64).max if most is None else most, torch.int64)
        if isinstance(most, torch.Tensor):
            return torch.minimum(val.long().clamp(min=0), most)
        return val.long().clamp(0, most)

    # NumPy and Python data

    def encode(self, val: ArrayLike, *, ignore_device: bool = False) -> torch.Tensor:
        """Turn class indices into a tensor of the spec; a tensor comes back as it is.

        Raises:
            RuntimeError: if the shape is another one (singleton dimensions may differ for arrays).
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a class is out of range or masked.
        """
        quick = self._encode_quickly(val)
        if quick is None:
            return super().encode(val, ignore_device=ignore_device)
        if self._mask is not None:
            return self._checked(quick, ignore_device)
        return quick if ignore_device or quick.device == self._device else quick.to(self._device)

    def _encode_quickly(self, val: Any) -> torch.Tensor | None:
        """Whole numbers and arrays of them, if they are classes; None for the rest and for what is wrong."""
        if isinstance(val, list):
            val = _as_array(val)
        if isinstance(val, np.ndarray):
            if val.ndim:
                if val.shape != self._size or self._limits is None or not holds_classes(val, self._limits):
                    return None
                encoded = torch.from_numpy(val.astype(NUMPY_DTYPES[self._dtype], "C"))
                return encoded if encoded.dtype == self._dtype else encoded.to(self._dtype)
            val = val.item()
        whole = isinstance(val, int | np.integer | np.bool_)
        if whole and 0 <= val < self._count and self._size.numel() == 1:
            return torch.full(self._size, int(val), dtype=self._dtype)
        return None

    # Conversions

    def _from_classes(self, classes: torch.Tensor) -> torch.Tensor:
        return self._from_indices(self._ungrouped(classes))

    def _from_indices(self, indices: torch.Tensor) -> torch.Tensor:
        return indices if self._dtype == torch.int64 else indices.to(self._dtype)

    def to_categorical(self, val: torch.Tensor, safe: bool | None = None) -> torch.Tensor:
        """Return the value: it holds class indices already.

        Raises:
            AssertionError: if `safe` is set and `val` does not belong to the spec.
        """
        self._check(val, safe)
        return val

    def to_categorical_spec(self) -> Self:
        """Return the spec: its values are class indices already."""
        return self

    # Copies, text and comparison

    @property
    @abstractmethod
    def _largest(self) -> int:
        """The largest class of all; -1 if it is not known."""

    def _check_dtype(self, dtype: torch.dtype) -> None:
        if not dtype.is_floating_point and self._largest > integer_range(dtype)[1]:
            raise ValueError(
                f"dtype {dtype} holds at most {integer_range(dtype)[1] + 1} classes, got {self._domain_text()}"
            )
