"""What losses ask of objects that normalize numbers, such as values: the methods that they have."""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

T = TypeVar("T")


@runtime_checkable
class Normalizer(Protocol):
    """Brings numbers to a common scale by what it has seen of them."""

    def update(self, x: Tensor, /) -> None:
        """Learn from a batch, ``[*batch, *features]``."""

    def normalize(self, x: Tensor, /) -> Tensor:
        """Numbers as multiples of their deviation from their mean: any leading dimensions, ``[..., *features]``."""
        ...


@runtime_checkable
class ValueNorm(Normalizer, Protocol):
    """A normalizer of the values of states, ``[..., 1]``, that can be undone."""

    def denormalize(self, x: Tensor, /) -> Tensor:
        """The numbers of which `normalize` made these."""
        ...

    def scale(self) -> Tensor:
        """What `normalize` divides by."""
        ...


def with_methods(module: T, protocol: type, name: str, owner: str) -> T:
    """The object itself, if it has the methods of a protocol.

    Args:
        module: what the constructor of a loss was given.
        protocol: `Normalizer` or `ValueNorm`.
        name: the keyword.
        owner: the class of the loss.

    Raises:
        TypeError: if it lacks one.
    """
    if not isinstance(module, protocol):
        lacking = [each for each in sorted(_methods(protocol)) if not callable(getattr(module, each, None))]
        raise TypeError(
            f"{owner}: `{name}` is a {protocol.__name__}; {type(module).__name__} has no method "
            f"{', '.join(map(repr, lacking))}"
        )
    return module


def _methods(protocol: type) -> set[str]:
    return {
        name
        for cls in protocol.__mro__
        for name, value in vars(cls).items()
        if not name.startswith("_") and callable(value)
    }
