"""`Composite`: the spec of a tensordict, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.specs.arguments import as_device, as_size
from specgen_runtime.specs.base import Problem, TensorSpec
from specgen_runtime.specs.composites import values
from specgen_runtime.specs.composites.data import ABSENT, as_data_cls, is_data, made, value_name
from specgen_runtime.specs.composites.entries import changed
from specgen_runtime.specs.composites.locks import require_unlocked
from specgen_runtime.specs.composites.names import as_names, known_names, refined_names
from specgen_runtime.specs.composites.spec_dict import SpecDict, SpecLike
from specgen_runtime.specs.keys import as_path, is_key
from specgen_runtime.specs.shapes import Change, Names, with_variable
from specgen_runtime.specs.variable_dims import changed_shape, drawn_size, fits
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike, SpecValue

__all__ = ["Composite"]


class Composite(SpecDict):
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

    _size: torch.Size
    """The batch size of values drawn without dimensions in front: `_shape` with 1 for variable dimensions."""
    _data_cls: type | None

    def __init__(
        self,
        specs: Mapping[Any, SpecLike] | SpecDict | None = None,
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
        if shape is not None and batch_size is not None:
            raise TypeError("shape and batch_size are the same: give one of them")
        batch = batch_size if shape is None else shape
        self._data_cls = as_data_cls(data_cls)
        self._holders = []
        self._specs = {}
        self._shape = torch.Size() if batch is None else as_size(batch, variable=True)
        self._size = drawn_size(self._shape)
        self._device = None if device is None else as_device(device)
        self._names = as_names(names, self.ndim)
        self.step_mdp_static = step_mdp_static
        if specs is not None:
            if not isinstance(specs, Mapping | SpecDict):
                raise RuntimeError(f"expected a mapping of specs, got {type(specs).__name__}")
            self._fill(specs.items())
        self._fill(entries.items())

    # Batch dimensions and device

    @property
    def shape(self) -> torch.Size:
        """The batch dimensions. Assigning others checks every entry first."""
        return self._shape

    @shape.setter
    def shape(self, shape: ShapeLike) -> None:
        require_unlocked(self)
        size = as_size(shape, variable=True)
        self._check_batch(size, ())
        self._set_batch(size)

    @property
    def batch_size(self) -> torch.Size:
        """The batch dimensions; the same as `shape`."""
        return self._shape

    @batch_size.setter
    def batch_size(self, shape: ShapeLike) -> None:
        self.shape = shape

    def _check_batch(self, size: torch.Size, path: tuple[str, ...]) -> None:
        for name, spec in self._specs.items():
            if spec is None or spec._free[: len(size)] == size:
                continue
            if not isinstance(spec, Composite):
                raise ValueError(
                    f"key {(*path, name)!r}: the shape must start with {tuple(size)}, got {tuple(spec.shape)}"
                )
            require_unlocked(spec)
            spec._check_batch(size, (*path, name))

    def _set_batch(self, size: torch.Size) -> None:
        self._names = known_names((*self.names, *(None for _ in size))[: len(size)])
        self._shape, self._size = size, drawn_size(size)
        for spec in self._parts():
            if spec._shape[: len(size)] != size:
                spec._set_batch(size)

    @property
    def names(self) -> list[str | None]:
        """The name of each batch dimension, None if it has none. Assigning names the nested composites along."""
        return list(self._names or (None,) * self.ndim)

    @names.setter
    def names(self, names: Sequence[str | None] | None) -> None:
        self._name_leading(as_names(names, self.ndim) or (None,) * self.ndim)

    def refine_names(self, *names: str | EllipsisType | None) -> Self:
        """Name dimensions that have no name yet, in place; `...` stands for those that keep theirs.

        Raises:
            RuntimeError: if a dimension has another name already.
            ValueError: if the number of names is another one.
        """
        self._name_leading(refined_names(self.names, names))
        return self

    def _name_leading(self, names: Names) -> None:
        """Give names to the first dimensions, here and in the parts; later ones keep theirs."""
        self._names = known_names(names + tuple(self.names[len(names) :]))
        for part in self._parts():
            part._name_leading(names)

    @property
    def domain(self) -> str:
        """`"composite"`: each entry has its own."""
        return "composite"

    @property
    def data_cls(self) -> type | None:
        """The class of the values; None if any tensordict will do."""
        return self._data_cls

    def _with_batch(self, batch_size: torch.Size, names: Names | None) -> Composite:
        spec = self
        if len(spec.shape) < len(batch_size) and batch_size[: spec.ndim] == spec.shape:
            spec = spec.clone()
            spec.shape = batch_size
        if names and tuple(spec.names[: len(batch_size)]) != names:
            spec = spec.clone()
            spec._name_leading(names)
        return spec

    def _nested(self) -> Any:
        return Composite(shape=self._shape, device=self._device, names=self._names)

    # Values

    def rand(self, shape: ShapeLike | None = None) -> TensorDict:
        """Draw a tensordict, entry after entry in their order, from torch's global generator."""
        return self._made(lambda spec, lead: spec.rand(lead), shape)

    def zero(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of zeros, whether or not 0 belongs to the domains."""
        return self._made(lambda spec, lead: spec.zero(lead), shape)

    def one(self, shape: ShapeLike | None = None) -> TensorDict:
        """Return a tensordict of ones, whether or not 1 belongs to the domains."""
        return self._made(lambda spec, lead: spec.one(lead), shape)

    def _made(
        self, make: Callable[[TensorSpec, torch.Size | None], SpecValue], shape: ShapeLike | None
    ) -> TensorDict:
        """A tensordict of what is made of each entry, given the dimensions to put in front."""
        lead = None if shape is None else as_size(shape)
        made_of = {name: make(spec, lead) for name, spec in self._specs.items() if spec is not None}
        return self._filled(made_of, lead)

    def _filled(self, entries: Mapping[str, Any], lead: torch.Size | None) -> TensorDict:
        batch = self._size if lead is None else lead + self._size
        return made(self._data_cls, entries, batch, self._device, self._names)

    def rand_sequence(self, length: int) -> TensorDict:
        """Draw `length` tensordicts at once, in front: exactly those of successive calls of `rand`."""
        if length and sum(spec is not None for spec in self.values(True, True)) > 1:
            # The draws of several entries alternate.
            stacked: Any = torch.stack([self.rand() for _ in range(length)])
            return stacked
        drawn = {name: spec.rand_sequence(length) for name, spec in self._specs.items() if spec is not None}
        return self._filled(drawn, torch.Size((length,)))

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
        """The number of members, leaving out entries of which nothing is known; 0 if there are no others."""
        known = [spec for spec in self._specs.values() if spec is not None and spec._has_values()]
        return math.prod(spec.cardinality() for spec in known) if known else 0

    def enumerate(self, use_mask: bool = False) -> TensorDict:
        """Return all members, along a new dimension in front; the last entry changes fastest."""
        members, count = values.all_members(self._specs, use_mask)
        return self._filled(members, torch.Size((count,)))

    def _has_values(self) -> bool:
        return any(spec is not None and spec._has_values() for spec in self._specs.values())

    # Membership

    def is_in(self, val: object) -> bool:
        """Tell whether every entry of a tensordict, or of another mapping, belongs to its spec.

        Further entries and dimensions in front are allowed. With a `data_cls`, it must be of that class. Never raises.
        """
        return is_data(val, self._data_cls) and all(
            entry is not ABSENT and spec.is_in(entry) for _, spec, entry in values.looked_up(self._specs, val)
        )

    def _problems(self, value: object) -> Iterator[Problem]:
        if is_data(value, self._data_cls):
            yield from values.problems(self._specs, value)
        else:
            yield (), f"expected a {value_name(self._data_cls)}, got {type(value).__name__}"

    def type_check(self, value: Any, key: NestedKey | Sequence[NestedKey] | None = None) -> None:
        """Check dtypes, and nothing else: of the entry `key`, or in a tensordict of those of some keys or of all.

        Raises:
            TypeError: if a dtype is another one.
            KeyError: if there is no such entry, in the spec or in the tensordict.
        """
        if key is None:
            self._check_types(value, ())
        elif is_key(key):
            found = (
                value
                if isinstance(self[key], Composite) or is_non_tensor(value) or not is_data(value)
                else value[key]
            )
            values.check_type(self[key], found, as_path(key))
        else:
            for each in key:
                self.type_check(value[each], each)

    def _check_types(self, value: Any, path: tuple[str, ...]) -> None:
        """Check the dtypes of a tensordict, which stands at a path of names."""
        values.check_types(self._specs, value, path)

    def project(self, val: TensorDictBase) -> TensorDictBase:
        """Map every entry into its spec, in place; further entries are kept.

        Raises:
            TypeError: if it is not a tensordict, or not of the `data_cls`.
            KeyError: if an entry is missing.
            ValueError: if an entry's shape does not fit.
        """
        if not is_tensor_collection(val) or not is_data(val, self._data_cls):
            raise TypeError(f"expected a {value_name(self._data_cls)}, got {type(val).__name__}")
        values.project(self._specs, val)
        return val

    # NumPy and Python data

    def encode(self, val: Mapping[Any, Any] | TensorDictBase, *, ignore_device: bool = False) -> TensorDict:
        """Turn a mapping of data into a tensordict; entries may be left out, keys may be tuples.

        Raises:
            KeyError: if the mapping has an entry that the spec does not have.
            TypeError: if it is not a mapping.
            RuntimeError, ValueError, TypeError, AssertionError: as the entries' specs say.
        """
        if not is_data(val):
            raise TypeError(f"cannot encode: expected a mapping, got {type(val).__name__}")
        encoded = values.encode(self._specs, val, ignore_device)
        batch = values.encoded_batch(self._specs, val, encoded, self._shape, self._size)
        device = None if ignore_device else self._device
        return made(self._data_cls, encoded, batch, device, self._names)

    def to_numpy(self, val: Mapping[str, Any] | TensorDictBase, safe: bool | None = None) -> dict[str, Any]:
        """Turn a tensordict into a (nested) dict of NumPy data: the inverse of `encode`.

        Raises:
            KeyError: if the tensordict has an entry that the spec does not have.
            TypeError: if it is neither a tensordict nor another mapping.
            AssertionError: if it does not belong to the spec and `safe` is set.
        """
        if not is_data(val):
            raise TypeError(f"expected a tensordict, got {type(val).__name__}")
        self._check(val, safe)
        return {
            name: self[name].to_numpy(entry, safe=False)
            for name, entry in val.items()
            if self._specs.get(name, ABSENT) is not None
        }

    # Copies and shapes

    def to(self, dest: torch.dtype | DEVICE_TYPING | None) -> Self:
        """Return the spec with every entry on another device or in another dtype (itself if nothing changes)."""
        if dest is None:
            return self
        if not isinstance(dest, torch.dtype | torch.device | str | int):
            raise ValueError(f"expected a dtype or a device, got {dest!r}")
        device = self._device if isinstance(dest, torch.dtype) else as_device(dest)
        specs = changed(self._specs, lambda spec: spec.to(dest))
        if device == self._device and all(spec is self._specs[name] for name, spec in specs.items()):
            return self
        new = self._copied(specs)
        new._device = device
        return new

    def _remap(self, change: Change) -> Self:
        specs = changed(self._specs, lambda spec: spec._remap(change))
        new = self._resized(specs, changed_shape(change.apply, self._shape))
        known = self._names is not None and change.rename is not None
        new._names = known_names(change.rename(self._names)) if known else None  # type: ignore[misc, arg-type]
        return new

    def _vary(self, dim: int) -> Self:
        specs = changed(self._specs, lambda spec: spec.make_neg_dim(dim))
        return self._resized(specs, with_variable(self._shape, dim))

    def _resized(self, specs: dict[str, TensorSpec | None], size: torch.Size) -> Self:
        new = self._copied(specs)
        new._shape, new._size = size, drawn_size(size)
        return new

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
