"""`SpecEntries`: the mapping half of a `Composite`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, overload

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.batch import SpecBatch
from specgen_runtime.specs.composites.views import Viewed
from specgen_runtime.specs.keys import RESERVED, as_path, is_key, unknown_key
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey, ShapeLike

__all__ = ["SpecEntries", "SpecLike"]

_Default = TypeVar("_Default")

SpecLike = TensorSpec | Mapping[Any, Any] | None
"""What an entry may be: a spec, a mapping of them, or None for one of which nothing is known."""


class _Missing:
    """The type of the mark for "no default was given"."""


_MISSING = _Missing()


class SpecEntries(Viewed, SpecBatch):
    """Named specs, nested to any depth, that share batch dimensions and perhaps a device."""

    step_mdp_static: bool
    """Whether `step_mdp` copies the entries as a whole; see `keys`."""

    def __init__(
        self,
        specs: Mapping[Any, SpecLike] | SpecEntries | None,
        shape: ShapeLike | None,
        device: DEVICE_TYPING | None,
        names: Sequence[str | None] | None,
        step_mdp_static: bool,
    ) -> None:
        super().__init__(shape, device, names)
        self.step_mdp_static = step_mdp_static
        if specs is not None:
            if not isinstance(specs, Mapping | SpecEntries):
                raise RuntimeError(f"expected a mapping of specs, got {type(specs).__name__}")
            self._fill(specs.items())

    def _fill(self, entries: Iterable[tuple[Any, SpecLike]]) -> None:
        """Set the entries of a spec that is just being made."""
        for key, spec in entries:
            if type(key) is str:
                self._specs[key] = self._fitted(key, spec)
            else:
                self.set(key, spec)

    @overload
    def __getitem__(self, key: NestedKey) -> TensorSpec: ...
    @overload
    def __getitem__(self, key: IndexLike) -> Self: ...
    def __getitem__(self, key: NestedKey | IndexLike) -> Any:
        """Return an entry, by key (None if nothing is known of it); or the spec with its batch indexed.

        Raises:
            KeyError: if there is no such entry.
            AttributeError: if the key is the name of an attribute: `"shape"`, `"device"`, `"dtype"`, `"space"`.
            IndexError: if the index does not fit the batch dimensions.
        """
        if isinstance(key, str):
            found = self._specs.get(key, _MISSING)
        elif is_key(key):
            found = self._found(as_path(key))
        else:
            return self._indexed(key)  # type: ignore[arg-type]
        if isinstance(found, _Missing):
            raise self._unknown(key)
        return found

    def _found(self, path: tuple[str, ...]) -> TensorSpec | _Missing | None:
        found: TensorSpec | _Missing | None = self
        for name in path:
            found = found._specs.get(name, _MISSING) if isinstance(found, SpecEntries) else _MISSING
        return found

    def _unknown(self, key: NestedKey) -> Exception:
        if as_path(key)[-1] in RESERVED:
            return AttributeError(f"no entry is named {key!r}: it is an attribute of every spec")
        return unknown_key(key, self.keys(include_nested=True))

    def __contains__(self, key: object) -> bool:
        return is_key(key) and not isinstance(self._found(as_path(key)), _Missing)

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

    def set(self, key: NestedKey, spec: SpecLike) -> Self:
        """Set an entry, making the composites that a nested key passes through.

        Raises:
            TypeError: if it is no spec, the key is not made of strings, or it passes through a leaf.
            AttributeError: if it is named like an attribute: `"shape"`, `"device"`, `"dtype"`, `"space"`.
            ValueError: if its shape does not start with the batch dimensions, or it contains this composite.
            RuntimeError: if it is on another device, or the spec is locked.
        """
        name, *rest = as_path(key)
        if not rest:
            self._require_unlocked()
            self._specs[name] = self._fitted(name, spec)
            return self
        child = self._specs.get(name, _MISSING)
        if isinstance(child, SpecEntries):
            child.set(tuple(rest), spec)
        elif isinstance(child, _Missing):
            self._require_unlocked()
            # Filled before it is attached, so that a refused entry leaves nothing behind.
            self._specs[name] = self._fitted(name, self._nested().set(tuple(rest), spec))
        else:
            raise TypeError(f"cannot set {key!r}: {name!r} is not a Composite, but {child!r}")
        return self

    def __setitem__(self, key: NestedKey, spec: SpecLike) -> None:
        self.set(key, spec)

    def _fitted(self, name: str, spec: object) -> TensorSpec | None:
        """Check an entry against the batch dimensions and the device; a composite may adapt to them."""
        if name in RESERVED:
            raise AttributeError(f"an entry cannot be named {name!r}: it is an attribute of every spec")
        if spec is None:
            return None
        if isinstance(spec, Mapping):
            nested = self._nested()
            nested._fill(spec.items())
            spec = nested
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"key {name!r}: expected a spec or a mapping of specs, got {type(spec).__name__}")
        if spec.device is None and self._device is not None:
            spec = spec.to(self._device)
        if isinstance(spec, SpecEntries):
            if any(store is self for store in spec._stores()):
                raise ValueError(f"key {name!r}: a composite cannot hold itself")
            spec = self._adapted(spec)
        elif isinstance(spec, NonTensor):
            spec = self._adapted(spec)
        if self._device is not None and spec.device != self._device:
            raise RuntimeError(f"key {name!r}: expected device {self._device}, got {spec.device}")
        if self._shape and spec._free[: len(self._shape)] != self._shape:
            raise ValueError(
                f"key {name!r}: the shape must start with the batch dimensions {tuple(self._shape)}, "
                f"got {spec!r}"
            )
        return spec

    def _adapted(self, spec: SpecEntries | NonTensor) -> TensorSpec:
        """Give a spec that leaves them open the batch dimensions and their names; in a copy."""
        shape, batch = spec.shape, self._shape
        if len(shape) < len(batch) and batch[: len(shape)] == shape:
            if isinstance(spec, NonTensor):
                return spec._shaped(batch)
            spec = spec.clone()
            spec.shape = batch
        if self._names and isinstance(spec, SpecEntries) and tuple(spec.names[: len(batch)]) != self._names:
            spec = spec.clone()
            spec._name_leading(self._names)
        return spec

    def update(self, specs: SpecEntries | Mapping[Any, SpecLike]) -> Self:
        """Set several entries, moving them to the device; nested composites are merged rather than replaced.

        Raises:
            TypeError, AttributeError, ValueError, RuntimeError: as `set`; nothing is changed then.
        """
        with self._all_or_nothing():
            for key, spec in specs.items():
                if isinstance(spec, Mapping):
                    spec = self._nested().update(spec)
                elif isinstance(spec, TensorSpec) and self._device is not None:
                    spec = spec.to(self._device)
                own = self.get(key, None) if is_key(key) else None
                if isinstance(own, SpecEntries) and isinstance(spec, SpecEntries):
                    self._merge(key, own, spec)
                else:
                    self.set(key, spec)
        return self

    def _merge(self, key: NestedKey, own: SpecEntries, specs: SpecEntries) -> None:
        """Set the entries of `specs` in the nested composite `own`, which stands under `key`."""
        own.update(specs)

    def __delitem__(self, key: NestedKey) -> None:
        if as_path(key)[-1] in RESERVED:
            raise ValueError(f"no entry is named {key!r}: it is an attribute of every spec")
        self.pop(key)

    @overload
    def pop(self, key: NestedKey) -> TensorSpec: ...
    @overload
    def pop(self, key: NestedKey, default: _Default) -> TensorSpec | _Default: ...
    def pop(self, key: NestedKey, default: object = _MISSING) -> object:
        """Remove an entry and return it, or return `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
            RuntimeError: if the composite that holds it is locked.
        """
        if key not in self:
            return self.get(key, default)
        *parents, name = as_path(key)
        holder = self._found(tuple(parents))
        assert isinstance(holder, SpecEntries)
        holder._require_unlocked()
        return holder._specs.pop(name)

    def _walk(
        self,
        include_nested: bool,
        leaves_only: bool,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> Iterator[tuple[Any, TensorSpec]]:
        if step_mdp_static_only and self.step_mdp_static:
            return
        name: str
        spec: Any  # None for entries without a spec, which the views show as they are
        for name, spec in self._specs.items():
            nested = isinstance(spec, SpecEntries)
            if nested and include_nested:
                for key, entry in spec._walk(True, leaves_only, is_leaf, step_mdp_static_only):
                    yield (name, *as_path(key)), entry
            leaf = not nested if is_leaf is None else is_leaf(type(spec))
            if leaf or not leaves_only or (step_mdp_static_only and nested and spec.step_mdp_static):
                yield name, spec

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def is_empty(self, recurse: bool = False) -> bool:
        """Tell whether there is no entry (with `recurse`, no leaf at any depth)."""
        return next(self._walk(recurse, recurse), None) is None

    # Parts of it

    def empty(self) -> Self:
        """Return a composite of the same kind, shape and device without entries."""
        return self._copied({})

    @abstractmethod
    def _copied(self, specs: dict[str, TensorSpec | None]) -> Self:
        """Make a composite of the same kind, of entries that are known to fit; not locked."""

    @abstractmethod
    def _nested(self) -> SpecEntries:
        """An empty plain composite of the same shape and device, with the same names of dimensions."""

    def separates(self, *keys: NestedKey, default: TensorSpec | None = None) -> SpecEntries | None:
        """Remove these entries and return them in a composite of their own; None if there are none.

        Args:
            keys: the entries.
            default: what is returned for keys that do not exist, instead of nothing.

        Raises:
            RuntimeError: if the composite that holds one of them is locked.
        """
        separate: SpecEntries | None = None
        for key in keys:
            path = as_path(key)
            holders = self._holders_of(path)
            spec = self.pop(key, default)
            if spec is not None:
                if separate is None:
                    separate = self._nested()
                separate._graft(path, spec, holders)
        return separate

    def select(self, *keys: NestedKey, strict: bool = True) -> Self:
        """Return a composite of these entries only.

        Raises:
            KeyError: if one does not exist and `strict` is set.
        """
        chosen = self.empty()
        for key in keys:
            if strict or key in self:
                path = as_path(key)
                spec = self[key]
                if chosen._found(path) is not spec:  # or it came along with a composite that holds it
                    chosen._graft(path, spec, self._holders_of(path))
        return chosen

    def _holders_of(self, path: tuple[str, ...]) -> list[SpecEntries]:
        """The composites that a key passes through, as far as they exist."""
        found = (self._found(path[:depth]) for depth in range(1, len(path)))
        return [holder for holder in found if isinstance(holder, SpecEntries)]

    def _graft(self, path: tuple[str, ...], spec: TensorSpec, holders: list[SpecEntries]) -> None:
        """Set an entry of another composite, in composites of the same shapes as those that held it there."""
        for depth, holder in enumerate(holders, 1):
            if path[:depth] not in self:
                self.set(path[:depth], holder._nested())
        self.set(path, spec)

    def exclude(self, *keys: NestedKey) -> Self:
        """Return a composite without these entries; unknown keys are ignored."""
        rest = self.clone()
        for key in keys:
            rest.pop(key, None)
        return rest
