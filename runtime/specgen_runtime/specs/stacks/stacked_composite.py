"""`StackedComposite`: composites that differ in keys or entries, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.composites.entries import undone_on_error
from specgen_runtime.specs.composites.locks import require_unlocked
from specgen_runtime.specs.composites.names import known_names
from specgen_runtime.specs.composites.spec_dict import SpecDict, SpecLike
from specgen_runtime.specs.keys import as_path, unknown_key
from specgen_runtime.specs.shapes import Names
from specgen_runtime.specs.stacks.base import SpecStack
from specgen_runtime.specs.stacks.shapes import check_alike, with_dim
from specgen_runtime.specs.torch_functions import stack
from specgen_runtime.specs.variable_dims import drawn_size
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["StackedComposite"]


class StackedComposite(SpecStack[Composite], Composite):
    """Composites of one shape along a stack dimension, whose keys and entries may differ.

    `torch.stack` of composites makes it where they differ.

    ```python
    spec = torch.stack([Composite(a=Unbounded((3,))), Composite(a=Unbounded((4,)), b=Binary(2))])
    spec["a"]  # a Stacked; keys that not all items have, such as "b", are not listed
    spec[1]["b"]  # the items have all of theirs
    spec.rand()  # a tensordict; a LazyStackedTensorDict if keys or sizes differ
    ```

    As a mapping it has the keys that all items have, with specs that can be stacked, in alphabetical order. `set`
    and `update` change the items; `del` deletes a key from each item that has it. `to_numpy` gives a dict of the
    stacked data of all keys, `encode` takes one: a tuple, with None for items that do not have the key, where they
    cannot be stacked. `encode` takes a list of the items' data as well.

    Args:
        specs: the items, at least one.
        dim: the stack dimension; a negative one is counted from behind.

    Raises:
        TypeError: if an item is not a composite.
        ValueError: if there is no item, or `dim` is out of range.
        RuntimeError: if the items' shapes differ.
    """

    _value_name: ClassVar[str] = "tensordict"

    def __init__(self, *specs: Composite, dim: int) -> None:
        super().__init__(*specs, dim=dim)
        if not isinstance(specs[0], Composite):
            raise TypeError("leaf specs are stacked by Stacked, not by StackedComposite")
        self._holders = []
        self._stack_name: str | None = None

    # What a Composite stores, told from the items.

    @property
    def _specs(self) -> Any:  # type: ignore[override]  # they follow the items
        return _Common(self._items, self._stack_dim)

    @property
    def _shape(self) -> torch.Size:  # type: ignore[override]
        return with_dim(self._items[0].shape, self._stack_dim, len(self._items))

    @property
    def _size(self) -> torch.Size:  # type: ignore[override]
        return drawn_size(self._shape)

    @property
    def _device(self) -> torch.device | None:  # type: ignore[override]
        devices = {item.device for item in self._items} - {None}
        return devices.pop() if len(devices) == 1 else None

    @property
    def _names(self) -> Names | None:  # type: ignore[override]
        names = [item.names for item in self._items]
        common = [found[0] if len(set(found)) == 1 else None for found in zip(*names, strict=True)]
        whole = (*common[: self._stack_dim], self._stack_name, *common[self._stack_dim :])
        return known_names(whole)

    @property
    def _data_cls(self) -> type | None:  # type: ignore[override]
        classes = {item._data_cls for item in self._items}
        return classes.pop() if len(classes) == 1 else None

    @property
    def step_mdp_static(self) -> bool:  # type: ignore[override]
        """Whether `step_mdp` copies the entries of every item as a whole."""
        return all(item.step_mdp_static for item in self._items)

    def _parts(self) -> Iterator[Composite]:
        return iter(self._items)

    def _with_items(self, items: Sequence[Composite]) -> Self:
        new = super()._with_items(items)
        new._stack_name = self._stack_name
        return new

    # Batch dimensions and device

    shape = Composite.shape  # type: ignore[override]  # which can be assigned, unlike that of other stacks

    def _check_batch(self, size: torch.Size, path: tuple[str, ...]) -> None:
        if size[self._stack_dim : self._stack_dim + 1] != (len(self._items),):
            place = f"key {path!r}: " if path else ""
            raise ValueError(
                f"{place}{len(self._items)} specs are stacked along dimension {self._stack_dim}, which can't be so "
                f"in shape {tuple(size)}"
            )
        for item in self._items:
            require_unlocked(item)
            item._check_batch(self._without_dim(size), path)

    def _set_batch(self, size: torch.Size) -> None:
        for item in self._items:
            item._set_batch(self._without_dim(size))

    def _without_dim(self, size: torch.Size) -> torch.Size:
        return size[: self._stack_dim] + size[self._stack_dim + 1 :]

    @property
    def device(self) -> torch.device | None:
        """The device of every item that has one; None if they differ. Assigning one moves the items there."""
        return self._device

    @device.setter
    def device(self, device: DEVICE_TYPING | None) -> None:
        require_unlocked(self)
        for item in self._items:
            item.device = device

    def _name_leading(self, names: Names) -> None:
        if len(names) > self._stack_dim:
            self._stack_name = names[self._stack_dim]
        for item in self._items:
            item._name_leading(names[: self._stack_dim] + names[self._stack_dim + 1 :])

    # Entries

    def set(self, key: NestedKey, spec: SpecLike) -> Any:
        """Set an entry in every item, taken apart along the stack dimension.

        Raises:
            TypeError, AttributeError, ValueError, RuntimeError: as for a `Composite`, or if an item is locked;
                nothing is changed then.
        """
        *_, name = path = as_path(key)
        require_unlocked(self)
        whole = self._fitted(name, spec)
        parts = [None] * len(self._items) if whole is None else whole.unbind(self._stack_dim)
        with undone_on_error(self._stores()):
            for item, part in zip(self._items, parts, strict=True):
                item.set(path, part)
        return self

    def _stores(self) -> Iterator[Any]:
        for item in self._items:
            yield from item._stores()

    def _merge(self, key: NestedKey, own: SpecDict, specs: SpecDict) -> None:
        whole: Any = self._fitted(as_path(key)[-1], specs)
        for item, part in zip(self._items, whole.unbind(self._stack_dim), strict=True):
            item.update({key: part})

    def pop(self, key: NestedKey, *default: Any) -> Any:
        """Remove an entry that all items have and return it stacked, or return `default` if there is none.

        Raises:
            KeyError: if there is no such entry and no default.
            RuntimeError: if the composite that holds it is locked.
        """
        found = self.get(key, *default)
        if key in self:
            del self[key]
        return found

    def __delitem__(self, key: NestedKey) -> None:
        """Delete a key from each item that has it.

        Raises:
            KeyError: if no item has it.
            RuntimeError: if the composite that holds it is locked.
        """
        require_unlocked(self)
        holders = [item for item in self._items if key in item]
        if not holders:
            raise unknown_key(key, (known for item in self._items for known in item.keys(True)))
        for item in holders:
            del item[key]

    def _unknown(self, key: NestedKey) -> Exception:
        holders = [place for place, item in enumerate(self._items) if key in item]
        if not holders:
            return super()._unknown(key)
        if len(holders) < len(self._items):
            return KeyError(f"not all items have an entry {key!r}, only {holders}: index the stack first")
        return RuntimeError(f"entry {key!r}: {self._difference(key)}")

    def _difference(self, key: NestedKey) -> str:
        """Why entries that all items have cannot be stacked."""
        specs = [item[key] for item in self._items]
        if None in specs:
            return f"the specs cannot be stacked: item {specs.index(None)} is None"  # type: ignore[arg-type]  # entries may be None
        try:
            check_alike(specs)
        except RuntimeError as error:
            return str(error)
        return "a composite that holds it cannot be stacked"

    def is_empty(self, recurse: bool = False) -> bool:
        """Tell whether no item has an entry (with `recurse`, a leaf at any depth)."""
        return all(item.is_empty(recurse) for item in self._items)

    # The results need not be stacks: what is left of the items may be equal.

    def empty(self) -> Any:
        """Return a composite of the same shape and device without entries."""
        return self._stack([item.empty() for item in self._items])

    def select(self, *keys: NestedKey, strict: bool = True) -> Any:
        """Return the stack of the items with these entries only.

        Raises:
            KeyError: if an item does not have one of them and `strict` is set.
        """
        return self._stack([item.select(*keys, strict=strict) for item in self._items])

    def exclude(self, *keys: NestedKey) -> Any:
        """Return the stack of the items without these entries; unknown keys are ignored."""
        return self._stack([item.exclude(*keys) for item in self._items])

    def _stack(self, items: list[Any]) -> Any:
        return stack(items, self._stack_dim)

    # Values

    def _is_value(self, value: object) -> bool:
        return isinstance(value, list | tuple) or (is_tensor_collection(value) and not is_non_tensor(value))

    def _taken_apart(self, val: Any) -> tuple[list[Any], int] | str:
        taken = super()._taken_apart(val)
        if isinstance(taken, str) or not isinstance(val, Mapping) or isinstance(val, TensorDictBase):
            return taken
        parts = [_without_absent(part, item) for part, item in zip(taken[0], self._items, strict=True)]
        return parts, taken[1]

    def _has_values(self) -> bool:
        return any(item._has_values() for item in self._items)

    def type_check(self, value: Any, key: NestedKey | Sequence[NestedKey] | None = None) -> None:
        """Check dtypes, and nothing else.

        Args:
            value: the value of the entry `key`; or a tensordict with all entries, or with those of several keys.
            key: one key, or a list of keys.

        Raises:
            TypeError: if a dtype is another one, or `value` is not a tensordict and there is no key.
            KeyError: if there is no such entry, in the spec or in the tensordict.
            ValueError: if the tensordict has no part for each item.
        """
        Composite.type_check(self, value, key)

    def _check_types(self, value: Any, path: tuple[str, ...]) -> None:
        for item, part in zip(self._items, self._parts_of(value)[0], strict=True):
            item._check_types(part, path)

    def project(self, val: Any) -> Any:
        """Map each item's part of a tensordict into the item, in place; further entries are kept.

        Raises:
            TypeError: if it is not a tensordict.
            KeyError: if an entry is missing.
            ValueError: if a shape does not fit.
        """
        projected = super().project(val)
        if projected is val or not isinstance(val, TensorDictBase):
            return projected
        if isinstance(val, LazyStackedTensorDict) and val.ndim - self.ndim + self._stack_dim == val.stack_dim:
            return val  # its parts are the tensordicts that were projected
        return val.update(projected)

    # Text

    def repr_exclusive_keys(self) -> str:
        """A text that lists, item by item, the entries that have no stacked spec."""
        listed = []
        for place, item in enumerate(self._items):
            own = [f"{name}: {spec!r}" for name, spec in item.items() if name not in self._specs]
            if own:
                listed.append(f"{place} ->\n" + _indented(",\n".join(own)))
        return "exclusive_fields={\n" + _indented(",\n".join(listed)) + "}"

    def __repr__(self) -> str:
        fields = _indented(",\n".join(f"{name}: {spec!r}" for name, spec in self._specs.items()))
        parts = [
            f"fields={{\n{fields}}}",
            self.repr_exclusive_keys(),
            f"device={self.device}",
            f"shape={tuple(self.shape)}",
            f"stack_dim={self._stack_dim}",
        ]
        return f"{type(self).__name__}(\n{_indented(f',{chr(10)}'.join(parts))})"


class _Common(Mapping[str, TensorSpec | None]):
    """The entries that all items have and that are of one kind, stacked when they are asked for."""

    def __init__(self, items: tuple[Composite, ...], dim: int) -> None:
        self._items = items
        self._dim = dim

    def __getitem__(self, name: str) -> TensorSpec | None:
        specs: list[Any] = [item._specs[name] for item in self._items]
        if all(spec is None for spec in specs):
            return None
        if None in specs:
            raise KeyError(name)
        try:
            return stack(specs, self._dim)
        except RuntimeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (name for name in sorted(self._items[0]._specs) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _without_absent(data: Mapping[str, Any], spec: Any) -> dict[str, Any]:
    """Data without None for what the spec does not have: it stands there for the sake of other items."""
    found = {}
    for name, entry in data.items():
        known = spec.get(name, None)
        if isinstance(entry, Mapping) and isinstance(known, Composite):
            found[name] = _without_absent(entry, known)
        elif entry is not None or known is not None:
            found[name] = entry
    return found


def _indented(text: str) -> str:
    return "".join(f"    {line}" for line in text.splitlines(keepends=True))
