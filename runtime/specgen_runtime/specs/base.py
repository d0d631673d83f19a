"""`TensorSpec`: what every spec, leaf or composite, can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Self

import torch
from typing_extensions import TypeVar

from specgen_runtime.specs import shapes
from specgen_runtime.specs.boxes import Box
from specgen_runtime.specs.shapes import Change, Dims, Names
from specgen_runtime.specs.torch_functions import find_torch_function, keep_torch_function
from specgen_runtime.specs.values import checks_encode
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike, SpecValue

__all__ = ["Problem", "TensorSpec"]

Problem = tuple[tuple[str, ...], str]
"""Why a value does not belong to a spec: the key that it concerns, and what is wrong there."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Value = TypeVar("_Value", default=SpecValue, covariant=True)


class TensorSpec(ABC, Generic[_Value]):
    """The shape, dtype, device and domain of a tensor, or of every tensor in a tensordict.

    A spec draws values (`rand`), tells whether a value belongs to it (`is_in`), maps values into itself (`project`), and
    reads and writes NumPy data (`encode`, `to_numpy`). It can be reshaped, indexed and moved like a tensor; each such
    method returns a new spec. The shape holds the batch dimensions as well as the feature dimensions. Values may have
    further dimensions in front: `rand(shape)` makes them, `is_in` accepts them.
    """

    _shape: torch.Size
    _fixed_dims: ClassVar[int] = 0
    """Trailing dimensions that belong to the domain (the classes of a one-hot spec) and never change."""
    _specs: Mapping[str, TensorSpec | None] | None = None
    """The entries of a `Composite`; None for every other spec."""

    __hash__ = None  # type: ignore[assignment]  # compared by value, and values can change

    # What it is

    @property
    def shape(self) -> torch.Size:
        """Batch and feature dimensions (only the batch dimensions for a `Composite`); -1 is any size."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the shape."""
        return len(self.shape)

    def ndimension(self) -> int:
        """Number of dimensions of the shape; the same as `ndim`."""
        return self.ndim

    @property
    @abstractmethod
    def device(self) -> torch.device | None:
        """Where the values are; None only for a `Composite` that does not say."""

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values; None for a `Composite`, and where there are no numbers."""
        return None

    @property
    def space(self) -> Box | None:
        """The domain of the values; None for a `Composite`, and where it has no bounds."""
        return None

    @property
    @abstractmethod
    def domain(self) -> str:
        """`"continuous"` or `"discrete"` for leaves, `"composite"` for a `Composite`."""

    # Values

    @abstractmethod
    def rand(self, shape: ShapeLike | None = None) -> _Value:
        """Draw a value: uniform over the domain, normal where it is unbounded.

        Args:
            shape: dimensions to put in front of the spec's own.
        """

    @abstractmethod
    def zero(self, shape: ShapeLike | None = None) -> _Value:
        """Return zeros, whether or not 0 belongs to the domain (for buffers, not for data); `shape` as for `rand`."""

    @abstractmethod
    def one(self, shape: ShapeLike | None = None) -> _Value:
        """Return ones, whether or not 1 belongs to the domain (for buffers, not for data); `shape` as for `rand`."""

    @abstractmethod
    def rand_sequence(self, length: int) -> _Value:
        """Draw `length` values, in front: on the CPU, bit by bit those of `length` successive calls of `rand`.

        On other devices they are equal in distribution only.
        """

    def _skip_draws(self, length: int) -> None:
        """Leave the generator where `rand_sequence(length)` leaves it."""
        self.rand_sequence(length)

    def cardinality(self) -> int | float:
        """The number of members: exact for discrete domains, `math.inf` for continuous ones.

        Raises:
            NotImplementedError: if they can't be counted.
        """
        raise NotImplementedError(f"the members of a {type(self).__name__} can't be counted")

    def enumerate(self, use_mask: bool = False) -> _Value:
        """Return all members along a new dimension in front; with `use_mask`, only those that masks allow.

        Raises:
            NotImplementedError: if there are infinitely many, or more than memory holds.
        """
        raise NotImplementedError(f"the members of a {type(self).__name__} can't be enumerated")

    def index(self, index: IndexLike, tensor_to_index: SpecValue) -> SpecValue:
        """Choose from a tensor `(*batch, n)` by values of this spec; NotImplementedError if they are not classes."""
        raise NotImplementedError(f"values of a {type(self).__name__} are not classes: they can't index")

    def sample(self, shape: ShapeLike | None = None) -> _Value:
        """Draw a value; the same as `rand`."""
        return self.rand(shape)

    def zeros(self, shape: ShapeLike | None = None) -> _Value:
        """Return zeros; the same as `zero`."""
        return self.zero(shape)

    def ones(self, shape: ShapeLike | None = None) -> _Value:
        """Return ones; the same as `one`."""
        return self.one(shape)

    def _has_values(self) -> bool:
        """Whether anything is known of the values; only of a composite of nothing but None nothing is."""
        return True

    # Membership

    def _problems(self, value: object) -> Iterator[Problem]:
        """Yield why `value` is not a member: the key that it concerns and what is wrong with it."""
        problem = self._problem(value)
        if problem is not None:
            yield (), problem

    def _problem(self, value: Any) -> str | None:
        """Say why `value` is not a member, for specs without keys."""
        raise NotImplementedError

    def is_in(self, val: object) -> bool:
        """Tell whether a value belongs to the spec: type, dtype, device, shape (with any in front) and domain.

        NaN belongs to no spec. Never raises.
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
            f"key {(path[0] if len(path) == 1 else path)!r}: {what}" if path else what
            for path, what in self._problems(value)
        ]
        if problems:
            found = "\n  ".join(problems)
            raise AssertionError(f"the value does not belong to the {type(self).__name__} spec: {found}")

    def _check(self, value: object, safe: bool | None) -> None:
        """`assert_is_in`, where `safe` or, without it, the environment variable `CHECK_SPEC_ENCODE` asks for it."""
        if checks_encode(safe):
            self.assert_is_in(value)

    @abstractmethod
    def type_check(self, value: SpecValue, key: NestedKey | None = None) -> None:
        """Check the dtype of a value, which is the entry `key` of a tensordict, and nothing else; else a TypeError."""

    @abstractmethod
    def project(self, val: Any) -> _Value:
        """Map a value into the spec; a member comes back as the same object. Draws nothing; NaN counts as 0.

        Raises:
            TypeError: if the value is of the wrong type.
            ValueError: if its shape does not end with the spec's.
        """

    # NumPy and Python data

    @abstractmethod
    def encode(self, val: Any, *, ignore_device: bool = False) -> _Value:
        """Turn data from outside into a value of the spec. The result never shares the caller's array.

        Args:
            val: numbers, lists or arrays (a mapping of them for a `Composite`); a tensor keeps its values.
            ignore_device: leave the result on the CPU, to be moved later together with others.

        Raises:
            RuntimeError: if the shape is another one (singleton dimensions may differ).
            ValueError: if a number cannot be represented in the spec's dtype.
            AssertionError: if a class index is out of range; for other domains with `CHECK_SPEC_ENCODE=1` only.
        """

    @abstractmethod
    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Turn a value into NumPy data: the inverse of `encode`.

        Args:
            val: a value of the spec.
            safe: check that it belongs to the spec; by default the environment variable `CHECK_SPEC_ENCODE`.
        """

    def memoize_encode(self, mode: bool = True) -> None:
        """Do nothing, so that code written for TorchRL runs: there is no cache."""

    def erase_memoize_cache(self) -> None:
        """Do nothing, so that code written for TorchRL runs: there is no cache."""

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
        """Forget the device of a `Composite`; a leaf stays as it is."""
        return self

    # Shapes. Subclasses say which leading dimensions may change, and how what they hold follows.

    @property
    def _free(self) -> torch.Size:
        """The leading dimensions that may be reshaped and indexed."""
        return self._shape[: -self._fixed_dims] if self._fixed_dims else self._shape

    @abstractmethod
    def _remap(self, change: Change) -> Self:
        """Return the spec with a change applied to the leading dimensions of all it holds."""

    @abstractmethod
    def _vary(self, dim: int) -> Self:
        """Return the spec with free dimension `dim` (not negative) of variable size."""

    def _with_batch(self, batch_size: torch.Size, names: Names | None) -> TensorSpec:
        """Return what a composite with these batch dimensions takes as its entry, if the spec leaves them open."""
        return self

    def __getitem__(self, index: IndexLike) -> Self:
        """Return the spec of what the same index takes from a value."""
        return self._indexed(index)

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in a shape with larger singleton dimensions and new ones in front; -1 stays -1.

        Raises:
            ValueError: if another dimension than a singleton would change, or another entry is negative.
        """
        return self._remap(shapes.expand(self._dims, shape))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape with as many elements; one entry may be -1.

        Raises:
            RuntimeError: if the number of elements differs.
            ValueError: if the last dimension of a spec whose classes lie along it would change.
        """
        return self._remap(shapes.reshape(self._dims, shape))

    def view(self, *shape: int | Sequence[int]) -> Self:
        """Return the spec in another shape; the same as `reshape`."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """Return the spec with dimensions `start_dim … end_dim` joined into one.

        Raises:
            IndexError: if a dimension is out of range.
            RuntimeError: if `start_dim` comes after `end_dim`.
            ValueError: as for `reshape`.
        """
        return self._remap(shapes.flatten(self._dims, start_dim, end_dim))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the spec with dimension `dim` split into `sizes`; one entry may be -1.

        Raises:
            IndexError: if `dim` is out of range.
            RuntimeError: if the sizes do not make up the dimension.
            ValueError: as for `reshape`.
        """
        return self._remap(shapes.unflatten(self._dims, dim, sizes))

    def unsqueeze(self, dim: int) -> Self:
        """Return the spec with a new singleton dimension at `dim`.

        Raises:
            ValueError: if `dim` is out of range, or would come after the classes of a one-hot spec.
        """
        return self._remap(shapes.unsqueeze(self._dims, dim))

    def squeeze(self, dim: int | None = None) -> Self:
        """Return the spec without dimension `dim` if its size is 1 (without any singleton, if None).

        The columns of a one-hot or multi-categorical spec are never squeezed away by None.

        Raises:
            IndexError: if `dim` is out of range.
            ValueError: if it names those columns.
        """
        change = shapes.squeeze(self._dims, dim)
        return self if change is None else self._remap(change)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the specs along one dimension.

        Raises:
            IndexError: if `dim` is out of range.
            ValueError: if it holds the columns of the spec, or is of variable size.
        """
        place = shapes.place_of(self._dims, dim)
        if place >= len(self._free) or self.shape[place] == -1:
            raise ValueError(f"cannot unbind dim {dim} of {self._dims.text}")
        before: tuple[slice, ...] = (slice(None),) * place
        return tuple(self._indexed((*before, item)) for item in range(self.shape[place]))

    def make_neg_dim(self, dim: int) -> Self:
        """Return the spec with dimension `dim` of variable size: its entry of the shape is -1.

        Raises:
            ValueError: if `dim` is out of range, holds the columns of the spec, or the domain differs along it.
        """
        try:
            place = shapes.free_place(self._dims, dim)
        except IndexError as error:
            raise ValueError(str(error)) from None
        return self if self.shape[place] == -1 else self._vary(place)

    def _selected(self, dim: int, index: torch.Tensor) -> Self:
        """The specs at the places `index` of a dimension: what `torch.index_select` returns."""
        if index.ndim > 1:
            raise IndexError(f"index must have one dimension, got shape {tuple(index.shape)}")
        before: tuple[slice, ...] = (slice(None),) * shapes.free_place(self._dims, dim)
        return self._indexed((*before, index.reshape(-1)))

    def _indexed(self, index: IndexLike) -> Self:
        return self._remap(shapes.index(self._dims, index))

    @property
    def _dims(self) -> Dims:
        return Dims(self.shape, len(self._free), self._name())

    def _name(self) -> str:
        """What the user calls this kind of spec."""
        return type(self).__name__

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

        return partial(keep_torch_function, cls, torch_function)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch when one of its functions is given a spec."""
        return find_torch_function(cls, func)(*args, **(kwargs or {}))
