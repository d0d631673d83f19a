"""`SpecBatch`: what a composite gives all its entries - batch dimensions, device and lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import torch

from specgen_runtime.specs.arguments import as_device, as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.locks import Lockable
from specgen_runtime.specs.composites.names import NamedDims, as_names
from specgen_runtime.specs.variable import drawn_size
from specgen_runtime.typing import DEVICE_TYPING, ShapeLike

__all__ = ["SpecBatch"]


class SpecBatch(Lockable, NamedDims, TensorSpec):
    """Specs that share batch dimensions and perhaps a device."""

    _specs: dict[str, TensorSpec | None]
    _shape: torch.Size
    _size: torch.Size
    """The batch size of values drawn without dimensions in front: `_shape` with 1 for variable dimensions."""
    _device: torch.device | None

    def __init__(
        self,
        shape: ShapeLike | None,
        device: DEVICE_TYPING | None,
        names: Sequence[str | None] | None,
    ) -> None:
        self._holders = []
        self._specs = {}
        self._shape = torch.Size() if shape is None else as_size(shape, variable=True)
        self._size = drawn_size(self._shape)
        self._device = None if device is None else as_device(device)
        self._names = as_names(names, len(self._shape))

    def _parts(self) -> Iterator[SpecBatch]:
        return (spec for spec in self._specs.values() if isinstance(spec, SpecBatch))

    def _stores(self) -> Iterator[SpecBatch]:
        """This and all it contains at any depth, as far as they hold entries of their own."""
        yield self
        for part in self._parts():
            yield from part._stores()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take back what was done to the entries, at any depth, if an error is raised on the way."""
        before = [(store, dict(store._specs)) for store in self._stores()]
        try:
            yield
        except BaseException:
            for store, specs in before:
                store._specs = specs
            raise

    def _each(self, change: Callable[[TensorSpec], TensorSpec]) -> dict[str, TensorSpec | None]:
        """The entries with a change applied to each; those of which nothing is known stay None."""
        return {name: None if spec is None else change(spec) for name, spec in self._specs.items()}

    @property
    def shape(self) -> torch.Size:
        """The batch dimensions. Assigning others checks every entry first."""
        return self._shape

    @shape.setter
    def shape(self, shape: ShapeLike) -> None:
        self._assign_shape(shape)

    def _assign_shape(self, shape: ShapeLike) -> None:
        self._require_unlocked()
        size = as_size(shape, variable=True)
        self._check_batch(size, ())
        self._set_batch(size)

    def _check_batch(self, size: torch.Size, path: tuple[str, ...]) -> None:
        for name, spec in self._specs.items():
            if spec is None or spec._free[: len(size)] == size:
                continue
            if not isinstance(spec, SpecBatch):
                raise ValueError(
                    f"key {(*path, name)!r}: the shape must start with {tuple(size)}, got {tuple(spec.shape)}"
                )
            spec._require_unlocked()
            spec._check_batch(size, (*path, name))

    def _set_batch(self, size: torch.Size) -> None:
        names = (*self.names, *(None for _ in size))[: len(size)]
        self._names = names if any(names) else None
        self._shape = size
        self._size = drawn_size(size)
        for spec in self._parts():
            if spec._shape[: len(size)] != size:
                spec._set_batch(size)

    @property
    def batch_size(self) -> torch.Size:
        """The batch dimensions; the same as `shape`."""
        return self._shape

    @batch_size.setter
    def batch_size(self, shape: ShapeLike) -> None:
        self.shape = shape

    @property
    def device(self) -> torch.device | None:
        """The device of every entry; None if it is left to them. Assigning one moves the entries there.

        Raises:
            RuntimeError: if the device is erased by assigning None: that is what `clear_device_` is for.
        """
        return self._device

    @device.setter
    def device(self, device: DEVICE_TYPING | None) -> None:
        self._require_unlocked()
        if device is None:
            if self._device is not None:
                raise RuntimeError("to erase the device of a Composite, call clear_device_()")
            return
        target = as_device(device)
        self._specs = self._each(lambda spec: spec.to(target))
        self._device = target

    @property
    def dtype(self) -> None:
        """None: each entry has its own."""
        return None

    @property
    def domain(self) -> str:
        """`"composite"`: each entry has its own."""
        return "composite"

    @property
    def space(self) -> None:
        """None: each entry has its own."""
        return None

    def clear_device_(self) -> Self:
        """Forget the device, here and in nested composites; leaves keep theirs."""
        self._device = None
        for spec in self._specs.values():
            if spec is not None:
                spec.clear_device_()
        return self
