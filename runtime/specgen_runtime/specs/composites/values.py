"""`CompositeValues`: the half of a `Composite` that makes values of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.specs.arguments import as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.data import made
from specgen_runtime.specs.composites.entries import SpecEntries
from specgen_runtime.specs.variable import fits
from specgen_runtime.typing import ShapeLike, SpecValue

__all__ = ["CompositeValues"]


class CompositeValues(SpecEntries):
    """Named specs whose values are tensordicts, or of a class of data with these entries."""

    _data_cls: type | None

    @property
    def data_cls(self) -> type | None:
        """The class of the values; None if any tensordict will do."""
        return self._data_cls

    @property
    def _value_name(self) -> str:
        """What messages call a value."""
        return "tensordict" if self._data_cls is None else self._data_cls.__name__

    def rand(self, shape: ShapeLike | None = None) -> TensorDict:
        """Draw a tensordict, entry after entry in their order, from torch's global generator.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        return self._made(lambda spec, lead: spec.rand(lead), shape)

    def sample(self, shape: ShapeLike | None = None) -> TensorDict:
        """Draw a tensordict; the same as `rand`."""
        return self.rand(shape)

    def zero(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of zeros, whether or not 0 belongs to the domains.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        return self._made(lambda spec, lead: spec.zero(lead), shape)

    def zeros(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of zeros; the same as `zero`."""
        return self.zero(shape)

    def one(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of ones, whether or not 1 belongs to the domains.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        return self._made(lambda spec, lead: spec.one(lead), shape)

    def ones(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of ones; the same as `one`."""
        return self.one(shape)

    def _made(
        self, make: Callable[[TensorSpec, torch.Size | None], SpecValue], shape: ShapeLike | None
    ) -> TensorDict:
        """A tensordict of what is made of each entry, given the dimensions to put in front."""
        lead = None if shape is None else as_size(shape)
        return self._filled(
            {name: make(spec, lead) for name, spec in self._specs.items() if spec is not None}, lead
        )

    def rand_sequence(self, length: int) -> TensorDict:
        """Draw `length` tensordicts at once, in front: exactly those of successive calls of `rand`."""
        lead = torch.Size((length,))
        if length == 0:
            return self.rand(lead)
        if sum(spec is not None for spec in self.values(True, True)) < 2:
            drawn = {
                name: spec.rand_sequence(length) for name, spec in self._specs.items() if spec is not None
            }
            return self._filled(drawn, lead)
        # The draws of several entries alternate.
        stacked: Any = torch.stack([self.rand() for _ in range(length)])
        return stacked

    def _filled(self, entries: Mapping[str, Any], lead: torch.Size | None) -> TensorDict:
        batch = self._size if lead is None else lead + self._size
        filled: TensorDict = made(self._data_cls, entries, batch, self._device, self._names)
        return filled

    def rand_update(self, val: TensorDictBase) -> TensorDictBase:
        """Draw a value for the batch of a tensordict, and put it in there, in place of what it has."""
        return self._updated(val, self.rand)

    def zeros_update(self, val: TensorDictBase) -> TensorDictBase:
        """Put zeros into a tensordict, in place of what it has; see `zero`."""
        return self._updated(val, self.zero)

    def ones_update(self, val: TensorDictBase) -> TensorDictBase:
        """Put ones into a tensordict, in place of what it has; see `one`."""
        return self._updated(val, self.one)

    def _updated(self, val: TensorDictBase, make: Callable[[torch.Size], TensorDict]) -> TensorDictBase:
        batch = val.batch_size
        lead = batch[: len(batch) - len(self._shape)] if fits(batch, self._shape) else torch.Size()
        return val.update(make(lead))

    def cardinality(self) -> int | float:
        """The number of members, leaving out entries of which nothing is known; 0 if there are no others.

        Raises:
            NotImplementedError: if the members of an entry can't be counted.
        """
        counts = [spec.cardinality() for _, spec in self._counted()]
        return math.prod(counts) if counts else 0

    def enumerate(self, use_mask: bool = False) -> TensorDict:
        """Return all members, along a new dimension in front; the last entry changes fastest.

        Args:
            use_mask: leave out what the masks of entries do not allow.

        Raises:
            NotImplementedError: if there are infinitely many, or more than memory holds.
        """
        parts: dict[str, Any] = {name: spec.enumerate(use_mask) for name, spec in self._counted()}
        grid = (
            torch.meshgrid(*(torch.arange(len(part), device="cpu") for part in parts.values()), indexing="ij")
            if parts
            else ()
        )
        places = dict(zip(parts, (place.reshape(-1) for place in grid), strict=True))
        lead = torch.Size((math.prod(map(len, parts.values())) if parts else 0,))
        members = {
            name: parts[name][places[name]] if name in parts else spec.zero(lead)
            for name, spec in self._specs.items()
            if spec is not None
        }
        return self._filled(members, lead)

    def _counted(self) -> list[tuple[str, TensorSpec]]:
        """The entries that have members to choose from."""
        return [
            (name, spec)
            for name, spec in self._specs.items()
            if spec is not None and not (isinstance(spec, CompositeValues) and not spec._counted())
        ]
