"""`TensorSpec`: what every spec, leaf or composite, can be asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import torch

from specgen_runtime.specs.boxes import Box
from specgen_runtime.specs.shapes import Shaped
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike, SpecValue

__all__ = ["TensorSpec"]

Problem = tuple[tuple[str, ...], str]


class TensorSpec(Shaped):
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
    @abstractmethod
    def domain(self) -> str:
        """`"continuous"` or `"discrete"` for leaves, `"composite"` for a `Composite`."""

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

    def _skip_draws(self, length: int) -> None:
        """Leave the generator where `rand_sequence(length)` leaves it."""
        self.rand_sequence(length)

    def cardinality(self) -> int | float:
        """The number of members: exact for discrete domains, `math.inf` for continuous ones.

        Raises:
            NotImplementedError: if the members of this kind of spec can't be counted.
        """
        raise NotImplementedError(f"the members of a {type(self).__name__} can't be counted")

    def enumerate(self, use_mask: bool = False) -> SpecValue:
        """Return all members of a discrete spec, along a new dimension in front.

        Args:
            use_mask: leave out what a mask does not allow.

        Raises:
            NotImplementedError: if there are infinitely many, or more than memory holds.
        """
        raise NotImplementedError(f"the members of a {type(self).__name__} can't be enumerated")

    def index(self, index: IndexLike, tensor_to_index: SpecValue) -> SpecValue:
        """Choose from a tensor by values of this spec, whether they are class indices or one-hot vectors.

        Args:
            index: values of the spec.
            tensor_to_index: `(*batch, n)`: what to choose from.

        Raises:
            NotImplementedError: if the values of the spec are not classes.
        """
        raise NotImplementedError(f"values of a {type(self).__name__} are not classes: they can't index")

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

    def memoize_encode(self, mode: bool = True) -> None:
        """Accepted so that code written for TorchRL runs: `encode` is prepared as far as it can be anyhow."""

    def erase_memoize_cache(self) -> None:
        """Accepted so that code written for TorchRL runs: there is no cache."""

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

    # Text and comparison

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    @abstractmethod
    def __repr__(self) -> str: ...


def _key_text(path: tuple[str, ...]) -> str:
    return repr(path[0]) if len(path) == 1 else repr(path)
