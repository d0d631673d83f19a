"""`Composite`: the spec of a tensordict, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.specs.arguments import as_device
from specgen_runtime.specs.base import Problem, TensorSpec
from specgen_runtime.specs.composites.data import (
    ABSENT,
    as_data_cls,
    common_batch,
    entry_of,
    is_data,
    made,
    unflattened,
)
from specgen_runtime.specs.composites.entries import SpecLike
from specgen_runtime.specs.composites.values import CompositeValues
from specgen_runtime.specs.keys import as_path, is_key, say_where, unknown_key
from specgen_runtime.specs.values import checks_encode
from specgen_runtime.specs.variable import Remap, changed_shape, drawn_size, fits
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike

__all__ = ["Composite"]


class Composite(CompositeValues):
    """The spec of a tensordict: named entries, each a leaf spec or a nested `Composite`.

    ```python
    spec = Composite(
        {"observation": Unbounded((3,)), ("agents", "reward"): Unbounded((2, 1))},
        done=Binary(shape=(1,), dtype=torch.bool),
    )
    spec["agents", "reward"].shape  # (2, 1)
    spec.rand()  # a TensorDict with these entries
    ```

    An entry may be None: it has a key, but nothing is known of it, and it is left out of values.

    Args:
        specs: entries by key; keys may be tuples, and values nested mappings.
        shape: the batch dimensions; every entry's shape starts with them. -1 is any size.
        device: the device of every entry; None leaves it to the entries.
        data_cls: the class of the values: `TensorDict`, a subclass of it, or a tensorclass. None makes a
            `TensorDict` and takes any of them.
        step_mdp_static: whether `step_mdp` copies the entries as a whole.
        names: names of the batch dimensions.
        batch_size: the same as `shape`.
        entries: further entries.

    Raises:
        TypeError: if an entry is not a spec, or a key is not made of strings; or for both shape and batch_size.
        AttributeError: if a key is `"shape"`, `"device"`, `"dtype"` or `"space"`.
        ValueError: if an entry's shape does not start with `shape`.
        RuntimeError: if an entry is on another device, or `specs` is not a mapping.
    """

    def __init__(
        self,
        specs: Mapping[Any, SpecLike] | Composite | None = None,
        /,
        *,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        data_cls: type | None = None,
        step_mdp_static: bool = False,
        names: Sequence[str | None] | None = None,
        batch_size: ShapeLike | None = None,
        **entries: SpecLike,
    ) -> None:
        if batch_size is not None:
            if shape is not None:
                raise TypeError("shape and batch_size are the same: give one of them")
            shape = batch_size
        self._data_cls = as_data_cls(data_cls)
        super().__init__(specs, shape, device, names, step_mdp_static)
        self._fill(entries.items())

    # Membership

    def is_in(self, val: object) -> bool:
        """Tell whether every entry of a tensordict, or of another mapping, belongs to its spec.

        Further entries, and further dimensions in front, are allowed. With a `data_cls`, the value must be of
        that class. Never raises.
        """
        if not is_data(val, self._data_cls):
            return False
        return all(entry is not ABSENT and spec.is_in(entry) for _, spec, entry in self._looked_up(val))

    def _looked_up(self, value: object) -> Iterator[tuple[str, TensorSpec, Any]]:
        """The entries with a spec and what a value has under their names; ABSENT where it should have something."""
        for name, spec in self._specs.items():
            if spec is None:
                continue
            entry = entry_of(value, name)
            if entry is not ABSENT or not _is_optional(spec):
                yield name, spec, entry

    def _problems(self, value: object) -> Iterator[Problem]:
        if not is_data(value, self._data_cls):
            yield (), f"expected a {self._value_name}, got {type(value).__name__}"
            return
        for name, spec, entry in self._looked_up(value):
            if entry is ABSENT:
                yield (name,), f"expected {spec!r}, got nothing"
                continue
            for path, what in spec._problems(entry):
                yield (name, *path), what

    def type_check(self, value: Any, key: NestedKey | Sequence[NestedKey] | None = None) -> None:
        """Check dtypes, and nothing else.

        Args:
            value: the value of the entry `key`; or a tensordict with all entries, or with those of several keys.
            key: one key, or a list of keys.

        Raises:
            TypeError: if a dtype is another one.
            KeyError: if there is no such entry, in the spec or in the tensordict.
        """
        if key is None:
            self._check_types(value, ())
        elif is_key(key):
            spec = self[key]
            if isinstance(spec, Composite):
                spec._check_types(value, as_path(key))
            elif spec is not None:
                spec.type_check(value[key] if is_data(value) and not is_non_tensor(value) else value, key)
        else:
            for each in key:
                self.type_check(value[each], each)

    def _check_types(self, value: Any, path: tuple[str, ...]) -> None:
        for name, spec, entry in self._looked_up(value):
            if entry is ABSENT:
                raise KeyError(f"key {(*path, name)!r}: expected {spec!r}, got nothing")
            if isinstance(spec, Composite):
                spec._check_types(entry, (*path, name))
            else:
                spec.type_check(entry, (*path, name) if path else name)

    def project(self, val: TensorDictBase) -> TensorDictBase:
        """Map every entry into its spec, in place; further entries are kept.

        Raises:
            TypeError: if it is not a tensordict, or not of the `data_cls`.
            KeyError: if an entry is missing.
            ValueError: if an entry's shape does not fit.
        """
        if not is_tensor_collection(val) or not is_data(val, self._data_cls):
            raise TypeError(f"expected a {self._value_name}, got {type(val).__name__}")
        for name, spec, entry in self._looked_up(val):
            if entry is ABSENT:
                raise KeyError(f"cannot project: no entry {name!r} in the tensordict, expected {spec!r}")
            try:
                projected = spec.project(entry)
            except (KeyError, RuntimeError, ValueError, TypeError) as error:
                say_where(error, f"key {name!r}")
                raise
            if projected is not entry:
                val.set(name, projected)
        return val

    # NumPy and Python data

    def encode(self, val: Mapping[Any, Any] | TensorDictBase, *, ignore_device: bool = False) -> TensorDict:
        """Turn a mapping of data into a tensordict; entries may be left out.

        Args:
            val: data by key; keys may be tuples. What the spec knows nothing of is left out.
            ignore_device: leave the result on the CPU, to be moved later together with others.

        Raises:
            KeyError: if the mapping has an entry that the spec does not have.
            TypeError: if it is not a mapping.
            RuntimeError, ValueError, TypeError, AssertionError: as the entries' specs say.
        """
        if not is_data(val):
            raise TypeError(f"cannot encode: expected a mapping, got {type(val).__name__}")
        encoded = {}
        for name, entry in val.items():
            spec = self._specs.get(name, ABSENT)
            if spec is None:
                continue
            if spec is ABSENT:
                if not isinstance(name, str):
                    return self.encode(unflattened(val), ignore_device=ignore_device)
                raise unknown_key(name, self._specs)
            if entry is None:
                raise RuntimeError(f"cannot encode: the entry {name!r} is missing, got None for {spec!r}")
            try:
                encoded[name] = spec.encode(entry, ignore_device=ignore_device)
            except (KeyError, RuntimeError, ValueError, TypeError, AssertionError) as error:
                say_where(error, f"key {name!r}")
                raise
        device = None if ignore_device else self._device
        return made(self._data_cls, encoded, self._encoded_batch(val, encoded), device, self._names)

    def _encoded_batch(self, val: object, encoded: Mapping[str, Any]) -> torch.Size:
        """The batch size of what was encoded: a tensordict's own, or what the entries have in common."""
        count = len(self._shape)
        if (
            isinstance(val, TensorDictBase)
            and len(val.batch_size) > count
            and fits(val.batch_size, self._shape)
        ):
            batch: torch.Size = val.batch_size
            return batch
        # Nested tensors have no shape; none has dimensions in front of its spec's.
        shaped = {
            name: entry for name, entry in encoded.items() if count and not getattr(entry, "is_nested", False)
        }
        if all(entry.shape[:count] == self._size for entry in shaped.values()):
            return self._size
        return common_batch(((name, entry, self[name]) for name, entry in shaped.items()), self._shape)

    def to_numpy(self, val: Mapping[str, Any] | TensorDictBase, safe: bool | None = None) -> dict[str, Any]:
        """Turn a tensordict into a (nested) dict of NumPy data: the inverse of `encode`.

        What the spec knows nothing of is left out.

        Raises:
            KeyError: if the tensordict has an entry that the spec does not have.
            TypeError: if it is neither a tensordict nor another mapping.
            AssertionError: if it does not belong to the spec and `safe` is set.
        """
        if not is_data(val):
            raise TypeError(f"expected a tensordict, got {type(val).__name__}")
        if checks_encode(safe):
            self.assert_is_in(val)
        return {
            name: self[name].to_numpy(entry, safe=False)
            for name, entry in val.items()
            if self._specs.get(name, ABSENT) is not None
        }

    # Copies and shapes

    def clone(self) -> Self:
        """Return an unlocked copy with cloned entries."""
        return self._copied(self._each(lambda spec: spec.clone()))

    def to(self, dest: torch.dtype | DEVICE_TYPING | None) -> Self:
        """Return the spec with every entry on another device or in another dtype (itself if nothing changes)."""
        if dest is None:
            return self
        if not isinstance(dest, torch.dtype | torch.device | str | int):
            raise ValueError(f"expected a dtype or a device, got {dest!r}")
        device = self._device if isinstance(dest, torch.dtype) else as_device(dest)
        specs = self._each(lambda spec: spec.to(dest))
        if device == self._device and all(spec is self._specs[name] for name, spec in specs.items()):
            return self
        new = self._copied(specs)
        new._device = device
        return new

    @property
    def _free(self) -> torch.Size:
        return self._shape

    def _remap(self, change: Remap) -> Self:
        new = self._copied(self._each(lambda spec: spec._remap(change)))
        new._names = None  # the methods that change the shape know where they went
        new._shape = changed_shape(change, self._shape)
        new._size = drawn_size(new._shape)
        return new

    def _vary(self, dim: int) -> Self:
        new = self._copied(self._each(lambda spec: spec.make_neg_dim(dim)))
        new._shape = torch.Size([-1 if place == dim else size for place, size in enumerate(self._shape)])
        new._size = drawn_size(new._shape)
        return new

    def _copied(self, specs: dict[str, TensorSpec | None]) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._specs = specs
        new._holders = []
        new._locked = new._holds = False
        return new

    def _nested(self) -> Composite:
        return Composite(shape=self._shape, device=self._device, names=self._names)

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite):
            return NotImplemented
        return (
            type(self) is type(other)
            and self._shape == other._shape
            and self._device == other._device
            and self._data_cls == other._data_cls
            and self._specs == other._specs
        )

    def __repr__(self) -> str:
        lines = [f"{name}: {spec!r}".replace("\n", "\n    ") for name, spec in self._specs.items()]
        tail = [f"device={self._device}", f"shape={tuple(self._shape)}"]
        if self._data_cls is not None:
            tail.append(f"data_cls={self._data_cls.__name__}")
        if self._names is not None:
            tail.append(f"names={self.names}")
        if self.step_mdp_static:
            tail.append("step_mdp_static=True")
        return "Composite(\n" + "".join(f"    {line},\n" for line in lines) + f"    {', '.join(tail)})"


def _is_optional(spec: TensorSpec) -> bool:
    """Whether values may lack the entry: a composite that knows nothing of what it holds."""
    return isinstance(spec, CompositeValues) and not spec._counted()
