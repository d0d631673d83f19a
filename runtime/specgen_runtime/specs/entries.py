"""`SpecEntries`: the mapping half of a `Composite` - its entries, batch dimensions, device and lock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, TypeVar, overload

import torch

from specgen_runtime.specs.arguments import as_device, as_size
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.keys import as_path, is_key, unknown_key
from specgen_runtime.specs.locks import Lockable
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike

__all__ = ["SpecEntries"]

_Default = TypeVar("_Default")


class _Missing:
    """The type of the mark for "no default was given"."""


_MISSING = _Missing()


class SpecEntries(Lockable, TensorSpec):
    """Named specs, nested to any depth, that share batch dimensions and perhaps a device."""

    def __init__(
        self,
        specs: Mapping[Any, TensorSpec | Mapping[Any, Any]] | SpecEntries | None,
        shape: ShapeLike,
        device: DEVICE_TYPING | None,
    ) -> None:
        self._holders = []
        self._shape = as_size(shape)
        self._device = None if device is None else as_device(device)
        self._specs: dict[str, TensorSpec] = {}
        if specs is not None and not isinstance(specs, Mapping | SpecEntries):
            raise TypeError(f"expected a mapping of specs, got {type(specs).__name__}")
        for key, spec in (specs or {}).items():
            self.set(key, spec)

    @property
    def shape(self) -> torch.Size:
        """The batch dimensions. Assigning others checks every entry first."""
        return self._shape

    @shape.setter
    def shape(self, shape: ShapeLike) -> None:
        self._require_unlocked()
        size = as_size(shape)
        self._check_batch(size, ())
        self._set_batch(size)

    def _check_batch(self, size: torch.Size, path: tuple[str, ...]) -> None:
        for name, spec in self._specs.items():
            if spec._free[: len(size)] == size:
                continue
            if not isinstance(spec, SpecEntries):
                raise ValueError(
                    f"key {(*path, name)!r}: the shape must start with {tuple(size)}, got {tuple(spec.shape)}"
                )
            spec._require_unlocked()
            spec._check_batch(size, (*path, name))

    def _set_batch(self, size: torch.Size) -> None:
        self._shape = size
        for spec in self._specs.values():
            if isinstance(spec, SpecEntries) and spec._shape[: len(size)] != size:
                spec._set_batch(size)

    @property
    def batch_size(self) -> torch.Size:
        """The batch dimensions; the same as `shape`."""
        return self._shape

    @property
    def device(self) -> torch.device | None:
        """The device of every entry; None if it is left to them."""
        return self._device

    @property
    def dtype(self) -> None:
        """None: each entry has its own."""
        return None

    @property
    def space(self) -> None:
        """None: each entry has its own."""
        return None

    def clear_device_(self) -> Self:
        """Forget the device, here and in nested composites; leaves keep theirs."""
        self._device = None
        for spec in self._specs.values():
            spec.clear_device_()
        return self

    # Entries

    @overload
    def __getitem__(self, key: NestedKey) -> TensorSpec: ...
    @overload
    def __getitem__(self, key: IndexLike) -> Self: ...
    def __getitem__(self, key: NestedKey | IndexLike) -> TensorSpec:
        """Return an entry, by key; or the spec with its batch dimensions indexed.

        Raises:
            KeyError: if there is no such entry.
            IndexError: if the index does not fit the batch dimensions.
        """
        if not is_key(key):
            return self._indexed(key)  # type: ignore[arg-type]
        found: TensorSpec = self
        for name in as_path(key):
            nested = found._specs.get(name) if isinstance(found, SpecEntries) else None
            if nested is None:
                raise unknown_key(key, self.keys(include_nested=True))
            found = nested
        return found

    @overload
    def get(self, key: NestedKey) -> TensorSpec: ...
    @overload
    def get(self, key: NestedKey, default: _Default) -> TensorSpec | _Default: ...
    def get(self, key: NestedKey, default: object = _MISSING) -> object:
        """Return an entry, or `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
        """
        if key in self:
            return self[key]
        if isinstance(default, _Missing):
            raise unknown_key(key, self.keys(include_nested=True))
        return default

    def set(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any]) -> Self:
        """Set an entry, making the composites that a nested key passes through.

        Raises:
            TypeError, ValueError, RuntimeError: as the constructor, or if the spec is locked.
        """
        path = as_path(key)
        self._require_unlocked()
        if len(path) == 1:
            self._specs[path[0]] = self._fitted(path[0], spec)
            return self
        child = self._specs.get(path[0])
        if isinstance(child, SpecEntries):
            child.set(path[1:], spec)
            return self
        # Filled before it is attached, so that a refused entry leaves nothing behind.
        child = self.empty()
        child.set(path[1:], spec)
        self._specs[path[0]] = child
        return self

    def __setitem__(self, key: NestedKey, spec: TensorSpec | Mapping[Any, Any]) -> None:
        self.set(key, spec)

    def _fitted(self, name: str, spec: object) -> TensorSpec:
        """Check an entry against the batch dimensions and the device; a composite may adapt to them."""
        if isinstance(spec, Mapping):
            spec = self.empty().update(spec)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"key {name!r}: expected a spec or a mapping of specs, got {type(spec).__name__}")
        if isinstance(spec, SpecEntries):
            if spec._device is None and self._device is not None:
                spec = spec.to(self._device)
            if len(spec._shape) < len(self._shape) and self._shape[: len(spec._shape)] == spec._shape:
                spec = spec.clone()
                spec.shape = self._shape
        if self._device is not None and spec.device != self._device:
            raise RuntimeError(f"key {name!r}: expected device {self._device}, got {spec.device}")
        if spec._free[: len(self._shape)] != self._shape:
            raise ValueError(
                f"key {name!r}: the shape must start with the batch dimensions {tuple(self._shape)}, "
                f"got {spec!r}"
            )
        return spec

    def update(self, specs: SpecEntries | Mapping[Any, TensorSpec | Mapping[Any, Any]]) -> Self:
        """Set several entries; nested composites are merged rather than replaced."""
        self._require_unlocked()
        for name, spec in specs.items():
            own = self._specs.get(name) if isinstance(name, str) else None
            if isinstance(own, SpecEntries) and isinstance(spec, SpecEntries | Mapping):
                own.update(spec)
            else:
                self.set(name, spec)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.pop(key)

    @overload
    def pop(self, key: NestedKey) -> TensorSpec: ...
    @overload
    def pop(self, key: NestedKey, default: _Default) -> TensorSpec | _Default: ...
    def pop(self, key: NestedKey, default: object = _MISSING) -> object:
        """Remove an entry and return it, or return `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
            RuntimeError: if the spec is locked.
        """
        self._require_unlocked()
        if key not in self:
            return self.get(key, default)
        *parents, name = as_path(key)
        parent = self[tuple(parents)] if parents else self
        assert isinstance(parent, SpecEntries)
        parent._require_unlocked()
        return parent._specs.pop(name)

    @overload
    def keys(self, include_nested: Literal[False] = False, leaves_only: bool = False) -> list[str]: ...
    @overload
    def keys(self, include_nested: bool, leaves_only: bool = False) -> list[NestedKey]: ...
    def keys(self, include_nested: bool = False, leaves_only: bool = False) -> Any:
        """List the keys, in the order in which they were set.

        Args:
            include_nested: also those of nested composites, as tuples.
            leaves_only: without the composites themselves.
        """
        return [key for key, _ in self._walk(include_nested, leaves_only)]

    @overload
    def items(
        self, include_nested: Literal[False] = False, leaves_only: bool = False
    ) -> list[tuple[str, TensorSpec]]: ...
    @overload
    def items(
        self, include_nested: bool, leaves_only: bool = False
    ) -> list[tuple[NestedKey, TensorSpec]]: ...
    def items(self, include_nested: bool = False, leaves_only: bool = False) -> Any:
        """List the keys and their specs; the arguments are those of `keys`."""
        return list(self._walk(include_nested, leaves_only))

    def values(self, include_nested: bool = False, leaves_only: bool = False) -> list[TensorSpec]:
        """List the specs; the arguments are those of `keys`."""
        return [spec for _, spec in self._walk(include_nested, leaves_only)]

    def _walk(self, include_nested: bool, leaves_only: bool) -> Iterator[tuple[NestedKey, TensorSpec]]:
        for name, spec in self._specs.items():
            if not (leaves_only and isinstance(spec, SpecEntries)):
                yield name, spec
            if include_nested and isinstance(spec, SpecEntries):
                for key, nested in spec._walk(True, leaves_only):
                    yield (name, *as_path(key)), nested

    def __contains__(self, key: object) -> bool:
        found: TensorSpec | None = self
        for name in as_path(key) if is_key(key) else (None,):
            found = found._specs.get(name) if isinstance(found, SpecEntries) and name is not None else None
        return found is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def is_empty(self, recurse: bool = False) -> bool:
        """Tell whether there is no entry (with `recurse`, no leaf at any depth)."""
        return not (self.keys(True, True) if recurse else self._specs)

    def empty(self) -> Self:
        """Return a composite of the same shape and device without entries."""
        return self._copied({}, self._shape, self._device)

    @abstractmethod
    def _copied(self, specs: dict[str, TensorSpec], shape: torch.Size, device: torch.device | None) -> Self:
        """Make a composite of entries that are known to fit."""

    def select(self, *keys: NestedKey, strict: bool = True) -> Self:
        """Return a composite of these entries only.

        Raises:
            KeyError: if one does not exist and `strict` is set.
        """
        chosen = self.empty()
        for key in keys:
            if strict or key in self:
                chosen.set(key, self[key])
        return chosen

    def exclude(self, *keys: NestedKey) -> Self:
        """Return a composite without these entries; unknown keys are ignored."""
        rest = self.clone()
        for key in keys:
            rest.pop(key, None)
        return rest

    def _lockable_parts(self) -> Iterator[Lockable]:
        return (spec for spec in self._specs.values() if isinstance(spec, SpecEntries))
