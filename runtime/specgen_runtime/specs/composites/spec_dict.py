"""`SpecDict`: the mapping side of a `Composite`: named specs, nested to any depth, that can be locked."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, Never, Self, overload

import torch
from tensordict import TensorDict
from typing_extensions import TypeVar, Unpack

from specgen_runtime.specs.arguments import as_device
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.data import ABSENT
from specgen_runtime.specs.composites.entries import changed, find, fit, graft, holders_of, undone_on_error
from specgen_runtime.specs.composites.locks import hold_parts, lock, require_unlocked, unlock
from specgen_runtime.specs.composites.views import SpecItems, SpecKeys, SpecValues, ViewOptions, walk
from specgen_runtime.specs.keys import RESERVED, as_path, is_key, unknown_key
from specgen_runtime.specs.shapes import Names
from specgen_runtime.typing import DEVICE_TYPING, IndexLike, NestedKey

__all__ = ["SpecDict", "SpecLike"]

SpecLike = TensorSpec | Mapping[Any, Any] | None
"""What an entry may be: a spec, a mapping of them, or None for one of which nothing is known."""

_Default = TypeVar("_Default", default=Never)


class SpecDict(TensorSpec[TensorDict]):
    """Named specs, nested to any depth, that are read and changed like a dict."""

    _specs: dict[str, TensorSpec | None]
    _device: torch.device | None
    _names: Names | None = None
    _locked: bool = False
    _holds: bool = False
    """Whether nested composites were locked along; see `locks.py`."""
    _holders: list[weakref.ref[SpecDict]]
    step_mdp_static: bool
    """Whether `step_mdp` copies the entries as a whole; see `keys`."""

    @abstractmethod
    def _nested(self) -> Self:
        """An empty plain composite of the same shape and device, with the same names of dimensions."""

    # Reading

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
            found = self._specs.get(key, ABSENT)
        elif is_key(key):
            found = find(self, as_path(key))
        else:
            return self._indexed(key)  # type: ignore[arg-type]
        if found is ABSENT:
            raise self._unknown(key)
        return found

    def _unknown(self, key: NestedKey) -> Exception:
        if as_path(key)[-1] in RESERVED:
            return AttributeError(f"no entry is named {key!r}: it is an attribute of every spec")
        return unknown_key(key, self.keys(include_nested=True))

    def __contains__(self, key: object) -> bool:
        return is_key(key) and find(self, as_path(key)) is not ABSENT

    def get(self, key: NestedKey, default: _Default = ABSENT) -> TensorSpec | _Default:
        """Return an entry, or `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
        """
        if key in self:
            return self[key]
        if default is ABSENT:
            raise unknown_key(key, self.keys(include_nested=True))
        return default

    # Changing

    def set(self, key: NestedKey, spec: SpecLike) -> Self:
        """Set an entry, making the composites that a nested key passes through.

        Raises:
            TypeError: if it is no spec, the key is not made of strings, or it passes through a leaf.
            AttributeError: if it is named like an attribute: `"shape"`, `"device"`, `"dtype"`, `"space"`.
            ValueError: if its shape does not start with the batch dimensions, or it contains this composite.
            RuntimeError: if it is on another device, or the spec is locked.
        """
        name, *rest = as_path(key)
        child = self._specs.get(name, ABSENT) if rest else ABSENT
        if isinstance(child, SpecDict):
            child.set(tuple(rest), spec)
        elif child is not ABSENT:
            raise TypeError(f"cannot set {key!r}: {name!r} is not a Composite, but {child!r}")
        else:
            require_unlocked(self)
            # Filled before it is attached, so that a refused entry leaves nothing behind.
            self._specs[name] = self._fitted(name, self._nested().set(tuple(rest), spec) if rest else spec)
        return self

    def __setitem__(self, key: NestedKey, spec: SpecLike) -> None:
        self.set(key, spec)

    def _fill(self, entries: Iterable[tuple[Any, SpecLike]]) -> None:
        """Set the entries of a spec that is just being made."""
        for key, spec in entries:
            if type(key) is str:
                self._specs[key] = self._fitted(key, spec)
            else:
                self.set(key, spec)

    def _parts(self) -> Iterator[Any]:
        """The nested composites."""
        return (spec for spec in self._specs.values() if isinstance(spec, SpecDict))

    def _stores(self) -> Iterator[SpecDict]:
        """This and all it contains at any depth, as far as they hold entries of their own."""
        yield self
        for part in self._parts():
            yield from part._stores()

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
        if isinstance(spec, SpecDict) and any(store is self for store in spec._stores()):
            raise ValueError(f"key {name!r}: a composite cannot hold itself")
        return fit(name, spec, self.shape, self._device, self._names)

    def update(self, specs: SpecDict | Mapping[Any, SpecLike]) -> Self:
        """Set several entries, moving them to the device; nested composites are merged rather than replaced.

        Raises:
            TypeError, AttributeError, ValueError, RuntimeError: as `set`; nothing is changed then.
        """
        with undone_on_error(self._stores()):
            for key, spec in specs.items():
                if isinstance(spec, Mapping):
                    spec = self._nested().update(spec)
                elif isinstance(spec, TensorSpec) and self._device is not None:
                    spec = spec.to(self._device)
                own = self.get(key, None) if is_key(key) else None
                if isinstance(own, SpecDict) and isinstance(spec, SpecDict):
                    self._merge(key, own, spec)
                else:
                    self.set(key, spec)
        return self

    def _merge(self, key: NestedKey, own: SpecDict, specs: SpecDict) -> None:
        """Set the entries of `specs` in the nested composite `own`, which stands under `key`."""
        own.update(specs)

    def __delitem__(self, key: NestedKey) -> None:
        if as_path(key)[-1] in RESERVED:
            raise ValueError(f"no entry is named {key!r}: it is an attribute of every spec")
        self.pop(key)

    def pop(self, key: NestedKey, default: _Default = ABSENT) -> TensorSpec | _Default:
        """Remove an entry and return it, or return `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
            RuntimeError: if the composite that holds it is locked.
        """
        if key not in self:
            return self.get(key, default)
        *parents, name = as_path(key)
        holder = find(self, tuple(parents))
        require_unlocked(holder)
        removed: TensorSpec = holder._specs.pop(name)
        return removed

    # Visiting

    @overload
    def keys(
        self,
        include_nested: Literal[False] = False,
        leaves_only: bool = False,
        **options: Unpack[ViewOptions],
    ) -> SpecKeys[str]: ...
    @overload
    def keys(
        self, include_nested: bool, leaves_only: bool = False, **options: Unpack[ViewOptions]
    ) -> SpecKeys[NestedKey]: ...
    def keys(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        *,
        is_leaf: Callable[[type], bool] | None = None,
        step_mdp_static_only: bool = False,
    ) -> Any:
        """A view of the keys, in the order in which they were set; nested ones come before what they are in.

        Args:
            include_nested: also those of nested composites, as tuples.
            leaves_only: without the composites themselves.
            is_leaf: which classes count as leaves, instead of all but `Composite`.
            step_mdp_static_only: list a composite that is `step_mdp_static` as a whole, not its entries:
                it counts as a leaf, and its own list is empty.
        """
        return SpecKeys(
            self, include_nested, leaves_only, is_leaf=is_leaf, step_mdp_static_only=step_mdp_static_only
        )

    @overload
    def items(
        self,
        include_nested: Literal[False] = False,
        leaves_only: bool = False,
        **options: Unpack[ViewOptions],
    ) -> SpecItems[str]: ...
    @overload
    def items(
        self, include_nested: bool, leaves_only: bool = False, **options: Unpack[ViewOptions]
    ) -> SpecItems[NestedKey]: ...
    def items(
        self, include_nested: bool = False, leaves_only: bool = False, **options: Unpack[ViewOptions]
    ) -> Any:
        """A view of the keys and their specs; the arguments are those of `keys`."""
        return SpecItems(self, include_nested, leaves_only, **options)

    def values(
        self, include_nested: bool = False, leaves_only: bool = False, **options: Unpack[ViewOptions]
    ) -> SpecValues:
        """A view of the specs; the arguments are those of `keys`."""
        return SpecValues(self, include_nested, leaves_only, **options)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def is_empty(self, recurse: bool = False) -> bool:
        """Tell whether there is no entry (with `recurse`, no leaf at any depth)."""
        return next(walk(self, recurse, recurse), None) is None

    # Parts of it

    def _copied(self, specs: dict[str, TensorSpec | None]) -> Self:
        """Make a composite of the same kind, of entries that are known to fit; not locked."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._specs, new._holders = specs, []
        new._locked = new._holds = False
        return new

    def clone(self) -> Self:
        """Return an unlocked copy with cloned entries."""
        return self._copied(changed(self._specs, lambda spec: spec.clone()))

    def empty(self) -> Self:
        """Return a composite of the same kind, shape and device without entries."""
        return self._copied({})

    def separates(self, *keys: NestedKey, default: TensorSpec | None = None) -> Self | None:
        """Remove these entries and return them, or `default` for those that do not exist, in a composite of their own.

        It is None if there is none.

        Raises:
            RuntimeError: if the composite that holds one of them is locked.
        """
        separate: Self | None = None
        for key in keys:
            path = as_path(key)
            holders = holders_of(self, path)
            spec = self.pop(key, default)
            if spec is not None:
                separate = self._nested() if separate is None else separate
                graft(separate, path, spec, holders)
        return separate

    def select(self, *keys: NestedKey, strict: bool = True) -> Self:
        """Return a composite of these entries only.

        Raises:
            KeyError: if one does not exist and `strict` is set.
        """
        chosen = self.empty()
        for key in keys:
            if strict or key in self:
                path, spec = as_path(key), self[key]
                if find(chosen, path) is not spec:  # or it came along with a composite that holds it
                    graft(chosen, path, spec, holders_of(self, path))
        return chosen

    def exclude(self, *keys: NestedKey) -> Self:
        """Return a composite without these entries; unknown keys are ignored."""
        rest = self.clone()
        for key in keys:
            rest.pop(key, None)
        return rest

    # Device

    @property
    def device(self) -> torch.device | None:
        """The device of every entry; None if it is left to them. Assigning one moves the entries there.

        Raises:
            RuntimeError: if the device is erased by assigning None: that is what `clear_device_` is for.
        """
        return self._device

    @device.setter
    def device(self, device: DEVICE_TYPING | None) -> None:
        require_unlocked(self)
        if device is None:
            if self._device is not None:
                raise RuntimeError("to erase the device of a Composite, call clear_device_()")
            return
        target = as_device(device)
        self._specs = changed(self._specs, lambda spec: spec.to(target))
        self._device = target

    def clear_device_(self) -> Self:
        """Forget the device, here and in nested composites; leaves keep theirs."""
        self._device = None
        for spec in self._specs.values():
            if spec is not None:
                spec.clear_device_()
        return self

    # Locking

    @property
    def is_locked(self) -> bool:
        """Whether entries and shape are protected against changes; assigning locks or unlocks."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        self.lock_() if value else self.unlock_()

    @property
    def locked(self) -> bool:
        """Whether entries and shape are protected against changes; the same as `is_locked`."""
        return self._locked

    def lock_(self, recurse: bool | None = None) -> Self:
        """Protect the entries and the shape against changes, and those of nested composites unless `recurse` is False."""
        lock(self, recurse is not False)
        return self

    def unlock_(self, recurse: bool | None = None) -> Self:
        """Allow changes again, in nested composites too unless `recurse` is False.

        Raises:
            RuntimeError: if this, or with `recurse` a nested part, is locked along with another tree, whose root
                must be unlocked first. Nothing is unlocked then.
        """
        unlock(self, recurse is not False)
        return self

    # Weak references cannot be copied or pickled; a locked root takes hold of its copied parts again.

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_holders": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._holds:
            hold_parts(self)
