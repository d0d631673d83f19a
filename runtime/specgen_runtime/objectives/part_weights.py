"""Coefficients of actions of several parts: one number, or one for each part by its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, Unpack

import torch
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.objectives.coefficients import add_coefficient
from specgen_runtime.objectives.parameters import device_of
from specgen_runtime.params import Limits, float_param
from specgen_runtime.typing import NestedKey

V = TypeVar("V")
PartWeights = Mapping[NestedKey, float]
"""A number for each part of an action, by its name: that of its distribution, the end of it, or as TorchRL calls it."""

_BEHIND = ("_log_prob", "_entropy")
"""What stands behind the name of a part in TorchRL's keys of its log-probability and entropy."""


def part_weights(name: str, value: object, **limits: Unpack[Limits]) -> float | dict[NestedKey, float]:
    """A constructor argument that is a number, or a number for each part.

    Args:
        name: the keyword, for messages.
        value: what was given.
        **limits: the range of each number.

    Raises:
        TypeError: if something is no number, or a name is no key.
        ValueError: if a number is outside its range, or a mapping is empty.
    """
    if not isinstance(value, Mapping):
        return float_param(name, value, **limits)
    if not value:
        raise ValueError(f"{name} names the parts of the action, got an empty mapping")
    made: dict[NestedKey, float] = {}
    for key, number in value.items():
        if (
            not isinstance(key, (str, tuple))
            or not key
            or not all(isinstance(one, str) for one in as_tuple(key))
        ):
            raise TypeError(
                f"{name} has a number for each part of the action by its name, got the name {key!r}"
            )
        made[key] = float_param(f"{name}[{key!r}]", number, **limits)
    return made


def add_part_weights(loss: nn.Module, name: str, value: float | PartWeights | None) -> None:
    """Register a number as a buffer of shape ``[]``, a mapping as one of shape ``[parts]``, in the order of the names.

    So whose mapping names the parts in another order loads the same state dict. `parts_of` gives the names.
    """
    if not isinstance(value, Mapping):
        add_coefficient(loss, name, value)
        return
    kind, device = torch.get_default_dtype(), device_of(loss.parameters())
    parts = tuple(sorted(value, key=as_tuple))
    loss.register_buffer(name, torch.tensor([value[part] for part in parts], dtype=kind, device=device))
    loss.__dict__["_parts_of"] = {**loss.__dict__.get("_parts_of", {}), name: parts}


def parts_of(loss: nn.Module, name: str) -> tuple[NestedKey, ...] | None:
    """The names of the parts that a coefficient weighs, in their order; None of one number for all."""
    found: tuple[NestedKey, ...] | None = loss.__dict__.get("_parts_of", {}).get(name)
    return found


def weights_of_parts(loss: nn.Module, name: str, value: PartWeights) -> Tensor:
    """What the coefficient of parts becomes that a mapping is assigned to, in the order of `parts_of`.

    Raises:
        TypeError: if the coefficient is one number for all parts, or something is no number.
        ValueError: if a number is missing, or for a part that it has none for so far.
    """
    parts, buffer = parts_of(loss, name), loss._buffers.get(name)
    if parts is None or buffer is None:
        raise TypeError(f"{name} is one number, got a mapping; give one when the loss is made")
    made = {as_tuple(key): float_param(f"{name}[{key!r}]", number) for key, number in value.items()}
    if set(made) != {as_tuple(part) for part in parts}:
        raise ValueError(f"{name} has numbers for {list(parts)}, got some for {list(value)}")
    numbers = [made[as_tuple(part)] for part in parts]
    return torch.tensor(numbers, dtype=buffer.dtype, device=buffer.device)


def in_order(values: Mapping[NestedKey, V], parts: Iterable[NestedKey]) -> list[V]:
    """The values of the parts of an action in the order of other names for them.

    Args:
        values: by the names of the distributions.
        parts: each is such a name, or the end of one, perhaps with `_log_prob` or `_entropy` behind it.

    Raises:
        KeyError: if a part has no name here, or a name no part.
    """
    left = {as_tuple(name): value for name, value in values.items()}
    found = []
    for part in parts:
        paths = [as_tuple(part), *(_without(as_tuple(part), end) for end in _BEHIND)]
        matching = [name for name in left if any(name[-len(path) :] == path for path in paths)]
        if len(matching) != 1:
            known = ", ".join(map(repr, values))
            what = "no part of the action is" if not matching else "several parts of the action are"
            raise KeyError(f"{what} called {part!r}; the parts are {known}")
        found.append(left.pop(matching[0]))
    if left:
        raise KeyError(f"no number is given for the part {_shown(next(iter(left)))} of the action")
    return found


def _without(path: tuple[str, ...], end: str) -> tuple[str, ...]:
    return (*path[:-1], path[-1].removesuffix(end))


def _shown(path: tuple[str, ...]) -> str:
    return repr(path[0] if len(path) == 1 else path)
