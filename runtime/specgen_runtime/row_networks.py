"""Networks that generated transforms and chains call on rows, whatever batch dimensions are in front of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

__all__ = [
    "NetworkRows",
    "RowNetwork",
    "Sizes",
    "as_rows",
    "frozen_copy",
    "row_network",
    "unified",
]

Sizes = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class NetworkRows:
    """What a network reads and gives for one row.

    Attributes:
        reads: the dimensions of each thing that it reads: numbers, names of sizes, and ``"_"`` for any size.
        dtype: of what it gives.
        gives: the dimensions of that; a name that is none of the input's is the network's own size.
    """

    reads: tuple[Sizes, ...]
    dtype: torch.dtype
    gives: Sizes


@dataclass(eq=False)
class RowNetwork:
    """A module, called with tensors of any leading dimensions: it gets one batch dimension, the rows.

    What it returns is compared with the declaration: its dtype, its shape, and that its own sizes stay what they were.

    Attributes:
        owner: the class that calls it, for messages.
        name: its keyword there.
        module: the module.
        rows: what it reads and gives.
        sizes: the sizes that only networks know, of all networks of one transform.
        frozen: whether it runs in evaluation mode and without gradients.
    """

    owner: str
    name: str
    module: nn.Module
    rows: NetworkRows
    sizes: dict[str, int] = field(default_factory=dict)
    frozen: bool = False

    def __call__(self, *inputs: Tensor) -> Tensor:
        """What the module gives, `(*leading, *dims)`.

        Raises:
            TypeError: it returns no tensor.
            RuntimeError: an input has other dimensions, or what it returns has another dtype or shape.
        """
        lead, flat, known = as_rows(f"{self.owner}: {self.name}", inputs, self.rows.reads)
        if self.frozen:
            if self.module.training:
                self.module.eval()
            with torch.no_grad():
                found = self.module(*flat)
        else:
            found = self.module(*flat)
        self._check(found, math.prod(lead), known)
        return cast("Tensor", found).reshape((*lead, *found.shape[1:]))

    def _check(self, found: Any, rows: int, known: dict[str, int]) -> None:
        expected = f"{self.rows.dtype} {_shown(('rows', *self.rows.gives))}"
        if not isinstance(found, Tensor):
            raise TypeError(f"{self.owner}: {self.name} must return {expected}, found {type(found).__name__}")
        sizes = {**self.sizes, **known}
        fits = found.dtype is self.rows.dtype and found.ndim > 0 and found.shape[0] == rows
        if not fits or not unified(self.rows.gives, found.shape[1:], sizes):
            named = [name for name in self.rows.gives if isinstance(name, str) and name in sizes]
            where = f", where {' and '.join(f'{name} is {sizes[name]}' for name in named)}" if named else ""
            raise RuntimeError(
                f"{self.owner}: {self.name} must return {expected} for {rows} rows{where}, found {found.dtype} "
                f"{list(found.shape)}"
            )
        for name in self.rows.gives:
            if isinstance(name, str) and name != "_" and name not in known:
                self.sizes[name] = sizes[name]


def as_rows(
    reader: str, inputs: Sequence[Tensor], reads: Sequence[Sizes]
) -> tuple[torch.Size, list[Tensor], dict[str, int]]:
    """The leading dimensions of some tensors, the tensors with one batch dimension, and the named sizes of a row.

    Raises:
        RuntimeError: one has other dimensions than its row in `reads`, or not the leading ones of the others.
    """
    leads: list[torch.Size] = []
    flat: list[Tensor] = []
    known: dict[str, int] = {}
    for value, wanted in zip(inputs, reads, strict=True):
        count = value.ndim - len(wanted)
        own = value.shape[max(count, 0) :]
        if count < 0 or not unified(wanted, own, known):
            raise RuntimeError(f"{reader} reads rows {_shown(wanted)}, got {list(value.shape)}")
        leads.append(value.shape[:count])
        flat.append(value.reshape((math.prod(leads[-1]), *own)))
    if any(lead != leads[0] for lead in leads):
        shapes = " and ".join(str(list(value.shape)) for value in inputs)
        raise RuntimeError(f"{reader} reads the same rows of all, got {shapes}")
    return leads[0], flat, known


def unified(wanted: Sizes, found: torch.Size, known: dict[str, int]) -> bool:
    """Whether dimensions are the wanted ones; names get their size in `known` where they have none yet."""
    if len(wanted) != len(found):
        return False
    new: dict[str, int] = {}
    for want, have in zip(wanted, found, strict=True):
        if want == "_":
            continue
        if isinstance(want, str):
            if known.get(want, new.setdefault(want, have)) != have:
                return False
        elif want != have:
            return False
    known.update((name, size) for name, size in new.items() if name not in known)
    return True


def _shown(sizes: Sizes) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def frozen_copy(name: str, module: nn.Module) -> nn.Module:
    """A copy of a module that computes with the same tensors: as buffers, so that nobody trains them.

    Raises:
        TypeError: it can't be copied.
    """
    tensors = {
        id(tensor): tensor.detach()
        for owner in module.modules()
        for tensor in [*owner._parameters.values(), *owner._buffers.values()]
        if tensor is not None
    }
    try:
        made = copy.deepcopy(module, cast("dict[int, Any]", dict(tensors)))
    except Exception as error:
        raise TypeError(f"{name}: {type(module).__name__} cannot be copied ({error})") from error
    for owner in made.modules():
        for key, tensor in list(owner._parameters.items()):
            del owner._parameters[key]
            owner.register_buffer(key, tensor)
    return made.eval()


def row_network(
    owner: nn.Module, name: str, module: nn.Module, rows: NetworkRows, *, frozen: bool = False, of: str = ""
) -> RowNetwork:
    """A network of the constructor of `owner`: its submodule, on its device, and as generated code calls it.

    Args:
        owner: the class, which becomes its owner.
        name: its keyword.
        module: the module.
        rows: what it reads and gives.
        frozen: whether it stays as it is.
        of: the transform that calls it, where there are several: names of sizes are that transform's.

    Raises:
        TypeError: it is no module, or can't be copied where that is needed.
        ValueError: a parameter has not been initialised.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"{type(owner).__name__}: {name} must be an nn.Module, got {type(module).__name__}")
    for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if nn.parameter.is_lazy(tensor):
            raise ValueError(
                f"{type(owner).__name__}: '{name}.{path}' is not initialised yet: call it once on data"
            )
    held = frozen_copy(f"{type(owner).__name__}: {name}", module) if frozen else module
    device: torch.device | None = getattr(owner, "_device", None)  # of environments
    owner.add_module(name, held if device is None else held.to(device))
    known: dict[str, dict[str, int]] = owner.__dict__.setdefault("_network_sizes", {})
    sizes = known.setdefault(of, {})
    return RowNetwork(type(owner).__name__, name, held, rows, sizes, frozen)
