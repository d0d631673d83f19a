"""Values of a `Composite`, entry by entry: what `is_in`, `project`, `encode` and their like do, given the entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.specs.base import Problem, TensorSpec
from specgen_runtime.specs.composites.data import ABSENT, entry_of, unflattened
from specgen_runtime.specs.keys import say_where, unknown_key
from specgen_runtime.specs.values import combinations
from specgen_runtime.specs.variable_dims import fits

__all__ = [
    "Specs",
    "all_members",
    "check_type",
    "check_types",
    "encode",
    "encoded_batch",
    "looked_up",
    "problems",
    "project",
]

Specs = Mapping[str, TensorSpec | None]
"""The entries of a composite."""


def looked_up(specs: Specs, value: object) -> Iterator[tuple[str, TensorSpec, Any]]:
    """The entries with a spec and what a value has under their names; ABSENT where it should have something."""
    for name, spec in specs.items():
        if spec is None:
            continue
        entry = entry_of(value, name)
        if entry is not ABSENT or spec._has_values():
            yield name, spec, entry


def problems(specs: Specs, value: object) -> Iterator[Problem]:
    """Why a tensordict, or another mapping, does not belong to its specs."""
    for name, spec, entry in looked_up(specs, value):
        if entry is ABSENT:
            yield (name,), f"expected {spec!r}, got nothing"
            continue
        for path, what in spec._problems(entry):
            yield (name, *path), what


def check_types(specs: Specs, value: Any, path: tuple[str, ...]) -> None:
    """Check the dtypes of the entries of a tensordict that stands at a path of names; see `Composite.type_check`."""
    for name, spec, entry in looked_up(specs, value):
        if entry is ABSENT:
            raise KeyError(f"key {(*path, name)!r}: expected {spec!r}, got nothing")
        check_type(spec, entry, (*path, name))


def check_type(spec: Any, value: Any, path: tuple[str, ...]) -> None:
    """Check the dtype of the entry at a path of names, or those of its own entries."""
    if spec is not None and spec._specs is not None:
        spec._check_types(value, path)
    elif spec is not None:
        spec.type_check(value, path if len(path) > 1 else path[0])


def project(specs: Specs, value: TensorDictBase) -> None:
    """Map every entry of a tensordict into its spec, in place; see `Composite.project`."""
    for name, spec, entry in looked_up(specs, value):
        if entry is ABSENT:
            raise KeyError(f"cannot project: no entry {name!r} in the tensordict, expected {spec!r}")
        try:
            projected = spec.project(entry)
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            say_where(error, f"key {name!r}")
            raise
        if projected is not entry:
            value.set(name, projected)


def encode(specs: Specs, data: Any, ignore_device: bool) -> dict[str, Any]:
    """Encode a mapping of data, entry by entry; see `Composite.encode`."""
    encoded = {}
    for name, entry in data.items():
        spec = specs.get(name, ABSENT)
        if spec is None:
            continue
        if spec is ABSENT:
            if not isinstance(name, str):
                return encode(specs, unflattened(data), ignore_device)
            raise unknown_key(name, specs)
        if entry is None:
            raise RuntimeError(f"cannot encode: the entry {name!r} is missing, got None for {spec!r}")
        try:
            encoded[name] = spec.encode(entry, ignore_device=ignore_device)
        except (KeyError, RuntimeError, ValueError, TypeError, AssertionError) as error:
            say_where(error, f"key {name!r}")
            raise
    return encoded


def encoded_batch(
    specs: Specs, data: object, encoded: Mapping[str, Any], batch: torch.Size, size: torch.Size
) -> torch.Size:
    """The batch size of what was encoded: a tensordict's own, or what the entries have in common.

    Args:
        specs: the entries of the composite; their values may have further dimensions in front.
        data: what was encoded.
        encoded: the values, by name.
        batch: the batch dimensions of the composite, with -1 for variable ones.
        size: the same, with 1 for variable ones.

    Raises:
        RuntimeError: if the values' batch dimensions differ.
    """
    count = len(batch)
    if isinstance(data, TensorDictBase) and len(data.batch_size) > count and fits(data.batch_size, batch):
        return torch.Size(data.batch_size)
    if not count:
        return size
    # Nested tensors have no shape; none has dimensions in front of its spec's.
    shaped = {name: value for name, value in encoded.items() if not getattr(value, "is_nested", False)}
    if all(value.shape[:count] == size for value in shaped.values()):
        return size
    found: dict[torch.Size, str] = {}
    for name, value in shaped.items():
        ndim: int = specs[name].ndim  # type: ignore[union-attr]  # without a spec there is no value
        found.setdefault(value.shape[: value.ndim - ndim + count], name)
    if len(found) > 1:
        (first, one), (second, other), *_ = found.items()
        raise RuntimeError(
            f"the batch dimensions of the entries differ: {one!r} has {tuple(first)}, {other!r} has {tuple(second)}"
        )
    return next(iter(found))


def all_members(specs: Specs, use_mask: bool) -> tuple[dict[str, Any], int]:
    """Every choice of one member of each entry, and how many there are; the last entry changes fastest."""
    members: dict[str, Any] = {
        name: spec.enumerate(use_mask)
        for name, spec in specs.items()
        if spec is not None and spec._has_values()
    }
    places, count = combinations([len(rows) for rows in members.values()])
    chosen = {name: rows[place] for (name, rows), place in zip(members.items(), places, strict=True)}
    return {
        name: chosen[name] if name in chosen else spec.zero((count,))
        for name, spec in specs.items()
        if spec is not None
    }, count
