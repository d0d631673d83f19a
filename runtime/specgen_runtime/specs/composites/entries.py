"""Entries of a `Composite`: finding them, fitting them in, and undoing changes that fail half-way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.data import ABSENT
from specgen_runtime.specs.shapes import Names

if TYPE_CHECKING:
    from specgen_runtime.specs.composites.spec_dict import SpecDict

__all__ = ["changed", "find", "fit", "graft", "holders_of", "undone_on_error"]


def find(spec: TensorSpec | None, path: tuple[str, ...]) -> Any:
    """The entry at a path of names; `ABSENT` if there is none."""
    found: Any = spec
    for name in path:
        entries = None if found is None or found is ABSENT else found._specs
        found = ABSENT if entries is None else entries.get(name, ABSENT)
    return found


def fit(
    name: str,
    spec: TensorSpec,
    batch_size: torch.Size,
    device: torch.device | None,
    names: Names | None,
) -> TensorSpec:
    """Check an entry against the batch dimensions and the device of its composite; one that leaves them open adapts.

    Args:
        name: the entry's name.
        spec: the entry; it is not changed.
        batch_size: what its shape has to start with.
        device: the device that it has to be on; None leaves it to the entry.
        names: names of the batch dimensions.

    Raises:
        RuntimeError: if it is on another device.
        ValueError: if its shape does not start with the batch dimensions.
    """
    if spec.device is None and device is not None:
        spec = spec.to(device)
    spec = spec._with_batch(batch_size, names)
    if device is not None and spec.device != device:
        raise RuntimeError(f"key {name!r}: expected device {device}, got {spec.device}")
    if batch_size and spec._free[: len(batch_size)] != batch_size:
        raise ValueError(
            f"key {name!r}: the shape must start with the batch dimensions {tuple(batch_size)}, got {spec!r}"
        )
    return spec


def changed(
    entries: Mapping[str, TensorSpec | None], change: Callable[[TensorSpec], TensorSpec]
) -> dict[str, TensorSpec | None]:
    """Entries with a change applied to each; those of which nothing is known stay None."""
    return {name: None if spec is None else change(spec) for name, spec in entries.items()}


def holders_of(spec: SpecDict, path: tuple[str, ...]) -> list[SpecDict]:
    """The composites that a key passes through, as far as they exist."""
    found = (find(spec, path[:depth]) for depth in range(1, len(path)))
    return [holder for holder in found if isinstance(holder, TensorSpec) and holder._specs is not None]  # type: ignore[misc]  # only composites have entries


def graft(spec: SpecDict, path: tuple[str, ...], entry: TensorSpec, holders: list[SpecDict]) -> None:
    """Set an entry of another composite, in composites of the same shapes as those that held it there."""
    for depth, holder in enumerate(holders, 1):
        if path[:depth] not in spec:
            spec.set(path[:depth], holder._nested())
    spec.set(path, entry)


@contextmanager
def undone_on_error(composites: Iterable[SpecDict]) -> Iterator[None]:
    """Give composites back the entries that they have now, if an error is raised on the way."""
    before = [(composite, dict(composite._specs)) for composite in composites]
    try:
        yield
    except BaseException:
        for composite, specs in before:
            composite._specs = specs
        raise
