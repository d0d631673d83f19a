"""`Shaped`: the half of a spec that can be reshaped and indexed like a tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import torch

from specgen_runtime.specs.arguments import as_index, size_from_args
from specgen_runtime.specs.functions import find_torch_function, keep_torch_function
from specgen_runtime.specs.variable import Remap, changed_shape, has_variable
from specgen_runtime.typing import IndexLike

__all__ = ["Shaped"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Shaped(ABC):
    """Something with a shape whose leading dimensions can change, by methods and by torch's functions."""

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Batch and feature dimensions (only the batch dimensions for a `Composite`); -1 is any size."""

    @property
    def ndim(self) -> int:
        """Number of dimensions of the shape."""
        return len(self.shape)

    def ndimension(self) -> int:
        """Number of dimensions of the shape."""
        return len(self.shape)

    # Subclasses say which leading dimensions are free to change, and how their tensors follow.

    @property
    @abstractmethod
    def _free(self) -> torch.Size:
        """The leading dimensions that may be reshaped and indexed."""

    @abstractmethod
    def _remap(self, change: Remap) -> Self:
        """Return the spec with `change` applied to the leading dimensions of all it holds."""

    @abstractmethod
    def _vary(self, dim: int) -> Self:
        """Return the spec with free dimension `dim` (not negative) of variable size."""

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec with singleton dimensions enlarged and new ones in front.

        Args:
            shape: the whole new shape, as integers or as one sequence. Variable dimensions stay -1.

        Raises:
            ValueError: if another dimension than a singleton would change, or another entry is negative.
        """
        new = size_from_args(shape)
        kept = len(self._free)
        free = self._new_free(new)
        added, grown = free[: len(free) - kept], free[len(free) - kept :]
        if (
            len(free) < kept
            or any(
                old != size and (old != 1 or size < 0) for old, size in zip(self._free, grown, strict=True)
            )
            or min(added, default=0) < 0
        ):
            raise ValueError(
                f"cannot expand {self._text()} to {tuple(new)}: only singleton dimensions grow, and new ones "
                "go in front"
            )
        return self._remap(lambda tensor: tensor.expand((*free, *tensor.shape[kept:])))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape with as many elements; one entry may be -1.

        Raises:
            RuntimeError: if the number of elements differs.
            ValueError: if the last dimension of a spec whose classes lie along it would change.
        """
        new = size_from_args(shape)
        if not has_variable(self.shape):
            # Resolved over the whole shape: the fixed part counts too.
            new = self._tried(lambda tensor: tensor.reshape(new), f"reshape {self._text()} to {tuple(new)}")
        kept = len(self._free)
        free = self._new_free(new)
        return self._changed(
            lambda tensor: tensor.reshape((*free, *tensor.shape[kept:])),
            f"reshape {self._text()} to {tuple(new)}",
        )

    def view(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape; the same as `reshape`."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """Return the spec with dimensions `start_dim … end_dim` joined into one.

        Raises:
            IndexError: if a dimension is out of range.
            RuntimeError: if `start_dim` comes after `end_dim`.
            ValueError: if the size of the last dimension of a spec whose classes lie along it would change.
        """
        if not self.ndim and {start_dim, end_dim} <= {0, -1}:
            return self.unsqueeze(0)  # so does torch
        start, end = self._dim(start_dim), self._dim(end_dim)
        what = f"flatten {self._text()} from dimension {start_dim} to {end_dim}"
        kept = len(self._free)
        if start > end:
            raise RuntimeError(f"cannot {what}: the first dimension comes after the last one")
        if end < kept:
            return self._changed(lambda tensor: tensor.flatten(start, end), what)
        # Nothing but singletons can be joined with the columns.
        self._new_free(self._tried(lambda tensor: tensor.flatten(start, end), what))
        return self._remap(lambda tensor: tensor.squeeze(tuple(range(start, kept))))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the spec with dimension `dim` split into `sizes`; one entry may be -1.

        Raises:
            IndexError: if `dim` is out of range.
            RuntimeError: if the sizes do not make up the dimension.
            ValueError: if the size of the last dimension of a spec whose classes lie along it would change.
        """
        place, parts = self._dim(dim), tuple(sizes)
        what = f"unflatten dimension {dim} of {self._text()} into {parts}"
        if place >= len(self._free):
            # Nothing but singletons can be split off the columns.
            new = self._new_free(self._tried(lambda tensor: torch.unflatten(tensor, place, parts), what))
            index = (slice(None),) * place + (None,) * (len(new) - place)
            return self._remap(lambda tensor: tensor[index])
        return self._changed(lambda tensor: torch.unflatten(tensor, place, parts), what)

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a new singleton dimension at position `dim`.

        Raises:
            ValueError: if `dim` is out of range, or would come after the classes of a one-hot spec.
        """
        position = dim + self.ndim + 1 if dim < 0 else dim
        if not 0 <= position <= self.ndim:
            raise ValueError(f"dim {dim} is out of range: expected -{self.ndim + 1} … {self.ndim}")
        if position > len(self._free):
            raise self._columns_stay()
        return self._remap(lambda tensor: tensor.unsqueeze(position))

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without dimension `dim` if its size is 1 (without any singleton, if None).

        The columns of a one-hot or multi-categorical spec are never squeezed away by None.

        Raises:
            IndexError: if `dim` is out of range.
            ValueError: if it names those columns.
        """
        if dim is None:
            places = tuple(place for place, size in enumerate(self._free) if size == 1)
            return self._remap(lambda tensor: tensor.squeeze(places)) if places else self
        position = self._dim(dim)
        if self.shape[position] != 1:
            return self
        if position >= len(self._free):
            raise self._columns_stay()
        return self._remap(lambda tensor: tensor.squeeze(position))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the specs along one dimension.

        Raises:
            IndexError: if `dim` is out of range.
            ValueError: if it holds the columns of the spec, or is of variable size.
        """
        position = self._dim(dim)
        if position >= len(self._free) or self.shape[position] == -1:
            raise ValueError(f"cannot unbind dim {dim} of {self._text()}")
        before: tuple[slice, ...] = (slice(None),) * position
        return tuple(self._indexed((*before, place)) for place in range(self.shape[position]))

    def make_neg_dim(self, dim: int) -> Self:
        """Return the spec with dimension `dim` of variable size: its entry of the shape is -1.

        Raises:
            ValueError: if `dim` is out of range, holds the columns of the spec, or the domain differs along it.
        """
        position = dim + self.ndim if dim < 0 else dim
        if not 0 <= position < self.ndim:
            raise ValueError(f"dim {dim} is out of range: the spec has {self.ndim} dimensions")
        if position >= len(self._free):
            raise self._columns_stay()
        return self if self.shape[position] == -1 else self._vary(position)

    def _selected(self, dim: int, index: torch.Tensor) -> Self:
        """The specs at the places `index` of a dimension: what `torch.index_select` returns."""
        if index.ndim > 1:
            raise IndexError(f"index must have one dimension, got shape {tuple(index.shape)}")
        position = self._dim(dim)
        if position >= len(self._free):
            raise self._columns_stay()
        before: tuple[slice, ...] = (slice(None),) * position
        return self._indexed((*before, index.reshape(-1)))

    def _indexed(self, index: IndexLike) -> Self:
        full = as_index(index, self._free, self._text())
        return self._remap(lambda tensor: tensor[full])

    def _new_free(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The free part of a new shape, after checking that the fixed part is the same."""
        fixed = tuple(self.shape[len(self._free) :])
        if fixed and tuple(shape[-len(fixed) :]) != fixed:
            raise ValueError(f"{self._columns_stay()}: it must be {fixed[-1]}, got shape {tuple(shape)}")
        return tuple(shape[: len(shape) - len(fixed)])

    def _columns_stay(self) -> ValueError:
        return ValueError(f"the last dimension of {self._text()} holds its columns and stays last")

    def _tried(self, change: Remap, what: str) -> torch.Size:
        """The shape after a change, if torch allows it for a tensor of this shape."""
        try:
            return changed_shape(change, self.shape)
        except RuntimeError:
            raise RuntimeError(f"cannot {what}") from None

    def _changed(self, change: Remap, what: str) -> Self:
        try:
            return self._remap(change)
        except RuntimeError:
            raise RuntimeError(f"cannot {what}") from None

    def _dim(self, dim: int) -> int:
        """A dimension counted from the front."""
        position = dim + self.ndim if dim < 0 else dim
        if not 0 <= position < self.ndim:
            raise IndexError(f"dim {dim} is out of range: the spec has {self.ndim} dimensions")
        return position

    def _name(self) -> str:
        """What the user calls this kind of spec."""
        return type(self).__name__

    def _text(self) -> str:
        return f"a {self._name()} of shape {tuple(self.shape)}"

    # torch's functions, such as torch.stack and torch.squeeze

    @classmethod
    def implements_for_spec(cls, torch_function: Callable[..., Any]) -> Callable[[_Function], _Function]:
        """Register what a torch function does for this class of specs and its subclasses; a decorator.

        ```python
        @Bounded.implements_for_spec(torch.neg)
        def negate(spec: Bounded) -> Bounded:
            return Bounded(-spec.high, -spec.low, spec.shape, spec.device, spec.dtype)
        ```
        """

        def register(implementation: _Function) -> _Function:
            keep_torch_function(cls, torch_function, implementation)
            return implementation

        return register

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Called by torch when one of its functions is given a spec."""
        implementation = find_torch_function(cls, func)
        return NotImplemented if implementation is None else implementation(*args, **(kwargs or {}))
