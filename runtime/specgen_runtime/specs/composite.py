"""`Composite`: the spec of a tensordict, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.specs.arguments import as_device, as_size
from specgen_runtime.specs.base import Problem, Remap, TensorSpec
from specgen_runtime.specs.entries import SpecEntries
from specgen_runtime.specs.keys import unknown_key
from specgen_runtime.specs.values import checks_encode, new_tensordict
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike

__all__ = ["Composite"]


class Composite(SpecEntries):
    """The spec of a tensordict: named entries, each a leaf spec or a nested `Composite`.

    ```python
    spec = Composite(
        {"observation": Unbounded((3,)), ("agents", "reward"): Unbounded((2, 1))},
        done=Binary(shape=(1,), dtype=torch.bool),
    )
    spec["agents", "reward"].shape  # (2, 1)
    spec.rand()  # a TensorDict with these entries
    ```

    Args:
        specs: entries by key; keys may be tuples, and values nested mappings.
        shape: the batch dimensions; every entry's shape starts with them.
        device: the device of every entry; None leaves it to the entries.
        entries: further entries.

    Raises:
        TypeError: if an entry is not a spec, or a key is not made of strings.
        ValueError: if an entry's shape does not start with `shape`.
        RuntimeError: if an entry is on another device.
    """

    def __init__(
        self,
        specs: Mapping[Any, TensorSpec | Mapping[Any, Any]] | Composite | None = None,
        /,
        *,
        shape: ShapeLike = (),
        device: DEVICE_TYPING | None = None,
        **entries: TensorSpec | Mapping[Any, Any],
    ) -> None:
        super().__init__(specs, shape, device)
        for name, spec in entries.items():
            self.set(name, spec)

    # Values

    def rand(self, shape: ShapeLike | None = None) -> TensorDict:
        """Draw a tensordict, entry after entry in their order, from torch's global generator.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        lead = torch.Size() if shape is None else as_size(shape)
        return self._filled({name: spec.rand(lead) for name, spec in self._specs.items()}, lead)

    def sample(self, shape: ShapeLike | None = None) -> TensorDict:
        """Draw a tensordict; the same as `rand`."""
        return self.rand(shape)

    def zero(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of zeros, whether or not 0 belongs to the domains.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        lead = torch.Size() if shape is None else as_size(shape)
        return self._filled({name: spec.zero(lead) for name, spec in self._specs.items()}, lead)

    def zeros(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of zeros; the same as `zero`."""
        return self.zero(shape)

    def one(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of ones, whether or not 1 belongs to the domains.

        Args:
            shape: dimensions to put in front of the batch dimensions.
        """
        lead = torch.Size() if shape is None else as_size(shape)
        return self._filled({name: spec.one(lead) for name, spec in self._specs.items()}, lead)

    def ones(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of ones; the same as `one`."""
        return self.one(shape)

    def rand_sequence(self, length: int) -> TensorDict:
        """Draw `length` tensordicts at once, in front: exactly those of successive calls of `rand`."""
        if length == 0:
            return self.rand((0,))
        if len(self.keys(True, True)) < 2:
            drawn = {name: spec.rand_sequence(length) for name, spec in self._specs.items()}
            return self._filled(drawn, torch.Size((length,)))
        # The draws of several entries alternate.
        stacked: Any = torch.stack([self.rand() for _ in range(length)])
        return stacked

    def _filled(self, entries: Mapping[str, Any], lead: torch.Size) -> TensorDict:
        return new_tensordict(entries, lead + self._shape, self._device)

    # Membership

    def _problems(self, value: object) -> Iterator[Problem]:
        if not isinstance(value, TensorDictBase | Mapping):
            yield (), f"expected a tensordict, got {type(value).__name__}"
            return
        for name, spec in self._specs.items():
            if name not in value.keys():  # noqa: SIM118  # a tensordict iterates over its batch
                yield (name,), f"expected {spec!r}, got nothing"
                continue
            for path, what in spec._problems(value[name]):
                yield (name, *path), what

    def type_check(self, value: Any, key: NestedKey | None = None) -> None:
        """Check dtypes, and nothing else: of the entry `key`, or of every entry of a tensordict.

        Raises:
            TypeError: if a dtype is another one.
            KeyError: if there is no such entry, in the spec or in the tensordict.
        """
        if key is not None:
            spec = self[key]
            spec.type_check(value, None if isinstance(spec, Composite) else key)
            return
        for path, spec in self.items(include_nested=True, leaves_only=True):
            spec.type_check(value[path], path)

    def project(self, val: TensorDictBase) -> TensorDictBase:
        """Map every entry into its spec, in place; further entries are kept.

        Raises:
            TypeError: if it is not a tensordict.
            KeyError: if an entry is missing.
            ValueError: if an entry's shape does not fit.
        """
        if not isinstance(val, TensorDictBase):
            raise TypeError(f"expected a tensordict, got {type(val).__name__}")
        for name, spec in self._specs.items():
            if name not in val.keys():  # noqa: SIM118  # a tensordict iterates over its batch
                raise KeyError(f"cannot project: no entry {name!r} in the tensordict, expected {spec!r}")
            entry = val.get(name)
            projected = spec.project(entry)
            if projected is not entry:
                val.set(name, projected)
        return val

    def encode(self, val: Mapping[str, Any] | TensorDictBase, *, ignore_device: bool = False) -> TensorDict:
        """Turn a mapping of data into a tensordict; entries may be left out.

        Raises:
            KeyError: if the mapping has an entry that the spec does not have.
            RuntimeError, ValueError, AssertionError: as the entries' specs say.
        """
        encoded = {}
        for name, entry in val.items():
            spec = self._specs.get(name)
            if spec is None:
                raise unknown_key(name, self._specs)
            try:
                encoded[name] = spec.encode(entry, ignore_device=ignore_device)
            except (RuntimeError, ValueError, TypeError, AssertionError) as error:
                error.add_note(f"in the entry {name!r}")
                raise
        return self._filled(encoded, torch.Size())

    def to_numpy(self, val: TensorDictBase, safe: bool | None = None) -> dict[str, Any]:
        """Turn a tensordict into a (nested) dict of NumPy data: the inverse of `encode`."""
        if checks_encode() if safe is None else safe:
            self.assert_is_in(val)
        return {name: self[name].to_numpy(entry, safe=False) for name, entry in val.items()}

    # Copies and shapes

    def clone(self) -> Self:
        """Return an unlocked copy with cloned entries."""
        return self._copied(
            {name: spec.clone() for name, spec in self._specs.items()}, self._shape, self._device
        )

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Self:
        """Return the spec with every entry on another device or in another dtype."""
        specs = {name: spec.to(dest) for name, spec in self._specs.items()}
        device = self._device if isinstance(dest, torch.dtype) else as_device(dest)
        if device == self._device and all(spec is self._specs[name] for name, spec in specs.items()):
            return self
        return self._copied(specs, self._shape, device)

    @property
    def _free(self) -> torch.Size:
        return self._shape

    def _remap(self, change: Remap) -> Self:
        specs = {name: spec._remap(change) for name, spec in self._specs.items()}
        return self._copied(specs, change(self._probe()).shape, self._device)

    def _copied(self, specs: dict[str, TensorSpec], shape: torch.Size, device: torch.device | None) -> Self:
        """Make a composite of entries that are known to fit."""
        new = type(self)(shape=shape, device=device)
        new._specs = specs
        return new

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite):
            return NotImplemented
        return self._shape == other._shape and self._device == other._device and self._specs == other._specs

    def __repr__(self) -> str:
        lines = [f"{name}: {spec!r}".replace("\n", "\n    ") for name, spec in self._specs.items()]
        tail = f"device={self._device}, shape={tuple(self._shape)}"
        return "Composite(\n" + "".join(f"    {line},\n" for line in lines) + f"    {tail})"
