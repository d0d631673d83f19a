"""The data that a `Composite` describes: making tensordicts and tensorclasses, and looking into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, TypedTensorDict, is_tensor_collection, is_tensorclass

from specgen_runtime.specs.keys import as_path
from specgen_runtime.specs.shapes import Names
from specgen_runtime.specs.values import new_tensordict

__all__ = ["ABSENT", "as_data_cls", "entry_of", "is_data", "made", "unflattened", "value_name"]

ABSENT: Any = object()
"""Stands for an entry that is not there."""


def as_data_cls(data_cls: type | None) -> type | None:
    """Check the class of a composite's values.

    Raises:
        TypeError: if it is neither `TensorDict`, a subclass of it or of `TypedTensorDict`, nor a tensorclass.
    """
    if data_cls is None or (
        isinstance(data_cls, type) and issubclass(data_cls, TensorDict | TypedTensorDict)
    ):
        return data_cls
    if isinstance(data_cls, type) and is_tensorclass(data_cls):
        return data_cls
    raise TypeError(f"data_cls must be TensorDict, a subclass of it, or a tensorclass, got {data_cls!r}")


def made(
    data_cls: Any,
    entries: Mapping[str, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    names: Names | None,
) -> TensorDict:
    """Make a value of entries that are known to fit.

    Args:
        data_cls: the class of the value; None is `TensorDict`.
        entries: by name.
        batch_size: the batch dimensions.
        device: the device of all entries, or None.
        names: names of the last batch dimensions; those in front of them have none.
    """
    listed: list[str | None] | None = None
    if names is not None:
        listed = [*(None for _ in range(len(batch_size) - len(names))), *names]
    if data_cls is None or data_cls is TensorDict:
        return new_tensordict(entries, batch_size, device, listed)
    value: TensorDict = data_cls.from_dict(dict(entries), batch_size=batch_size, device=device)
    if listed is not None:
        value.names = listed
    return value


def is_data(value: object, data_cls: type | None = None) -> bool:
    """Whether a value holds entries by name; with `data_cls`, whether it is of that class."""
    if data_cls is None:
        return isinstance(value, Mapping) or is_tensor_collection(value)  # a tensordict is a mapping
    # Whatever form a plain tensordict has: dense, lazily stacked, in a file.
    return isinstance(value, TensorDictBase if data_cls is TensorDict else data_cls)


def entry_of(data: Any, name: str) -> Any:
    """An entry of a tensordict, a tensorclass or a mapping; `ABSENT` if there is none, or it has no one shape."""
    try:
        return data.get(name, ABSENT)
    except RuntimeError:  # lazily stacked entries of different shapes
        return ABSENT


def unflattened(data: Mapping[Any, Any]) -> dict[str, Any]:
    """The mapping with nested mappings in place of keys that are tuples.

    Raises:
        TypeError: if a key is not a string or a tuple of strings.
    """
    nested: dict[str, Any] = {}
    for key, value in data.items():
        *parents, name = as_path(key)
        place = nested
        for parent in parents:
            below = dict(place.get(parent, {}))
            place[parent] = below
            place = below
        place[name] = value
    return nested


def value_name(data_cls: type | None) -> str:
    """What messages call a value of a composite with this `data_cls`."""
    return "tensordict" if data_cls is None else data_cls.__name__
