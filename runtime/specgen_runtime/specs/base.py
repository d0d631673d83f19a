"""`TensorSpec`: what every spec, leaf or composite, can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch

from specgen_runtime.specs.arguments import as_index, size_from_args
from specgen_runtime.specs.boxes import Box
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike, SpecValue

__all__ = ["TensorSpec"]

Remap = Callable[[torch.Tensor], torch.Tensor]
Problem = tuple[tuple[str, ...], str]


class TensorSpec(ABC):
    """The shape, dtype, device and domain of a tensor, or of every tensor in a tensordict.

    A spec draws values (`rand`), tells whether a value belongs to it (`is_in`), maps values into itself
    (`project`), and reads and writes NumPy data (`encode`, `to_numpy`). It can be reshaped, indexed
    and moved like a tensor; each such method returns a new spec.

    The shape holds the batch dimensions as well as the feature dimensions. Values may have further
    dimensions in front: `rand(shape)` makes them, `is_in` accepts them.
    """

    __hash__ = None  # type: ignore[assignment]  # compared by value, and values can change

    # What it is

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Batch and feature dimensions (only the batch dimensions for a `Composite`)."""

    @property
    @abstractmethod
    def device(self) -> torch.device | None:
        """Where the values are; None only for a `Composite` that does not say."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values; None for a `Composite`."""

    @property
    @abstractmethod
    def space(self) -> Box | None:
        """The domain of the values; None for a `Composite`."""

    @property
    def ndim(self) -> int:
        """Number of dimensions of the shape."""
        return len(self.shape)

    def ndimension(self) -> int:
        """Number of dimensions of the shape."""
        return len(self.shape)

    # Values

    @abstractmethod
    def rand(self, shape: ShapeLike | None = None) -> SpecValue:
        """Draw a value: uniform over the domain, normal where it is unbounded.

        Args:
            shape: dimensions to put in front of the spec's own.
        """

    @abstractmethod
    def zero(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return zeros, whether or not 0 belongs to the domain (for buffers, not for data).

        Args:
            shape: dimensions to put in front of the spec's own.
        """

    @abstractmethod
    def one(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return ones, whether or not 1 belongs to the domain (for buffers, not for data).

        Args:
            shape: dimensions to put in front of the spec's own.
        """

    @abstractmethod
    def rand_sequence(self, length: int) -> SpecValue:
        """Draw `length` values at once, in front: exactly those of `length` successive calls of `rand`.

        On the CPU the numbers and the generator's final state are the same bit by bit. On other devices
        values are drawn in one batch and are equal in distribution only.
        """

    def sample(self, shape: ShapeLike | None = None) -> SpecValue:
        """Draw a value; the same as `rand`."""
        return self.rand(shape)

    def zeros(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return zeros; the same as `zero`."""
        return self.zero(shape)

    def ones(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return ones; the same as `one`."""
        return self.one(shape)

    # Membership

    @abstractmethod
    def _problems(self, value: object) -> Iterator[Problem]:
        """Yield why `value` is not a member: the key that it concerns and what is wrong with it."""

    def is_in(self, val: object) -> bool:
        """Tell whether a value belongs to the spec: type, dtype, device, shape and domain.

        Further dimensions in front are allowed. NaN belongs to no spec. Never raises.
        """
        return next(self._problems(val), None) is None

    def contains(self, item: object) -> bool:
        """Tell whether a value belongs to the spec; the same as `is_in`."""
        return self.is_in(item)

    def assert_is_in(self, value: object) -> None:
        """Check that a value belongs to the spec.

        Raises:
            AssertionError: naming each key that is wrong, what was expected and what was found.
        """
        problems = [
            f"key {_key_text(path)}: {what}" if path else what for path, what in self._problems(value)
        ]
        if problems:
            raise AssertionError(
                f"the value does not belong to the {type(self).__name__} spec: " + "\n  ".join(problems)
            )

    @abstractmethod
    def type_check(self, value: SpecValue, key: NestedKey | None = None) -> None:
        """Check the dtype of a value, and nothing else.

        Args:
            value: a tensor, or a tensordict for a `Composite` when `key` is None.
            key: the entry that `value` belongs to.

        Raises:
            TypeError: if the dtype is another one.
        """

    @abstractmethod
    def project(self, val: Any) -> SpecValue:
        """Map a value into the spec; a member comes back as the same object.

        Never draws random numbers. NaN counts as 0.

        Raises:
            TypeError: if the value is of the wrong type.
            ValueError: if its shape does not end with the spec's.
        """

    # NumPy and Python data

    @abstractmethod
    def encode(self, val: Any, *, ignore_device: bool = False) -> SpecValue:
        """Turn data from outside into a value of the spec. The result never shares the caller's array.

        Args:
            val: numbers, lists or arrays (a mapping of them for a `Composite`); a tensor keeps its values.
            ignore_device: leave the result on the CPU, to be moved later together with others.

        Raises:
            RuntimeError: if the shape is another one (singleton dimensions may differ).
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a class index is out of range; for other domains only when the environment
                variable `CHECK_SPEC_ENCODE` is 1.
        """

    @abstractmethod
    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Turn a value into NumPy data: the inverse of `encode`.

        Args:
            val: a value of the spec.
            safe: check that `val` belongs to the spec; by default the environment variable
                `CHECK_SPEC_ENCODE`.
        """

    # Copies

    @abstractmethod
    def clone(self) -> Self:
        """Return an independent copy."""

    @abstractmethod
    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Self:
        """Return the spec on another device or with another dtype (itself if nothing changes)."""

    def cpu(self) -> Self:
        """Return the spec on the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | str | torch.device | None = None) -> Self:
        """Return the spec on a CUDA device."""
        return self.to("cuda" if device is None else device)

    def clear_device_(self) -> Self:
        """Forget the device, for a `Composite`; a leaf always has one and stays as it is."""
        return self

    # Shapes. Subclasses say which leading dimensions are free to change and how their tensors follow.

    @property
    @abstractmethod
    def _free(self) -> torch.Size:
        """The leading dimensions that may be reshaped and indexed."""

    @abstractmethod
    def _remap(self, change: Remap) -> Self:
        """Return the spec with `change` applied to the leading dimensions of all it holds."""

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec with singleton dimensions enlarged and new ones in front.

        Args:
            shape: the whole new shape, as integers or as one sequence.

        Raises:
            ValueError: if another dimension than a singleton would change, or an entry is negative.
        """
        new = size_from_args(shape)
        kept = len(self._free)
        free = self._new_free(new)
        grown = free[len(free) - kept :]
        if (
            min(new, default=0) < 0
            or len(free) < kept
            or any(old not in (1, size) for old, size in zip(self._free, grown, strict=True))
        ):
            raise ValueError(
                f"cannot expand a {type(self).__name__} of shape {tuple(self.shape)} to {tuple(new)}: "
                "only singleton dimensions grow, and new ones go in front"
            )
        return self._remap(lambda tensor: tensor.expand((*free, *tensor.shape[kept:])))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape with as many elements; one entry may be -1.

        Raises:
            RuntimeError: if the number of elements differs.
            ValueError: if the last dimension of a spec whose classes lie along it would change.
        """
        new = size_from_args(shape)
        try:
            resolved = self._probe().reshape(new).shape
        except RuntimeError:
            raise RuntimeError(
                f"cannot reshape a {type(self).__name__} of shape {tuple(self.shape)} to {tuple(new)}"
            ) from None
        kept = len(self._free)
        free = self._new_free(resolved)
        return self._remap(lambda tensor: tensor.reshape((*free, *tensor.shape[kept:])))

    def view(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape; the same as `reshape`."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """Return the spec with dimensions `start_dim … end_dim` joined into one."""
        return self.reshape(self._probe().flatten(start_dim, end_dim).shape)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the spec with dimension `dim` split into `sizes`; one entry may be -1."""
        probe: torch.Tensor = torch.unflatten(self._probe(), dim, tuple(sizes))
        return self.reshape(probe.shape)

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a new singleton dimension at position `dim`.

        Raises:
            ValueError: if `dim` is out of range, or would come after the classes of a one-hot spec.
        """
        position = dim + self.ndim + 1 if dim < 0 else dim
        if not 0 <= position <= self.ndim:
            raise ValueError(f"dim {dim} is out of range: expected -{self.ndim + 1} … {self.ndim}")
        shape = list(self.shape)
        shape.insert(position, 1)
        if position > len(self._free):
            raise ValueError(
                f"the last dimension of a {type(self).__name__} holds its columns and stays last"
            )
        return self.reshape(shape)

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without dimension `dim` if its size is 1 (without any singleton, if None).

        The columns of a one-hot or multi-categorical spec are never squeezed away by None.

        Raises:
            ValueError: if `dim` is out of range or names those columns.
        """
        kept = self.shape[len(self._free) :]
        if dim is None:
            return self.reshape([size for size in self._free if size != 1] + list(kept))
        position = dim + self.ndim if dim < 0 else dim
        if not 0 <= position < self.ndim:
            raise ValueError(f"dim {dim} is out of range: the spec has {self.ndim} dimensions")
        if self.shape[position] != 1:
            return self
        if position >= len(self._free):
            raise ValueError(f"the last dimension of a {type(self).__name__} holds its columns and stays")
        return self.reshape([size for place, size in enumerate(self.shape) if place != position])

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the specs along one dimension.

        Raises:
            ValueError: if `dim` is out of range, or holds the columns of the spec.
        """
        position = dim + self.ndim if dim < 0 else dim
        if not 0 <= position < len(self._free):
            raise ValueError(
                f"cannot unbind dim {dim} of a {type(self).__name__} of shape {tuple(self.shape)}"
            )
        before: tuple[slice, ...] = (slice(None),) * position
        return tuple(self._indexed((*before, place)) for place in range(self.shape[position]))

    def _indexed(self, index: IndexLike) -> Self:
        full = as_index(index, len(self._free), f"a {type(self).__name__} of shape {tuple(self.shape)}")
        return self._remap(lambda tensor: tensor[full])

    def _new_free(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The free part of a new shape, after checking that the fixed part is the same."""
        fixed = tuple(self.shape[len(self._free) :])
        if fixed and tuple(shape[-len(fixed) :]) != fixed:
            raise ValueError(
                f"the last dimension of a {type(self).__name__} holds its columns and must stay {fixed[-1]}, "
                f"got shape {tuple(shape)}"
            )
        return tuple(shape[: len(shape) - len(fixed)])

    def _probe(self) -> torch.Tensor:
        """A tensor of the spec's shape that takes one byte of memory."""
        return torch.empty((), dtype=torch.bool).expand(self.shape)

    # Text and comparison

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    @abstractmethod
    def __repr__(self) -> str: ...


def _key_text(path: tuple[str, ...]) -> str:
    return repr(path[0]) if len(path) == 1 else repr(path)
