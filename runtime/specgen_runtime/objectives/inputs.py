"""What networks of losses read: entries of the data, some replaced by what the loss computes, once for each draw."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from tensordict import TensorDictBase, unravel_key
from tensordict.nn import skip_existing
from torch import Tensor

from specgen_runtime.envs.packing import peek
from specgen_runtime.objectives.keys import listed
from specgen_runtime.typing import NestedKey

Replaced: TypeAlias = Mapping[NestedKey, Tensor]
"""Inputs of a network that the loss computes, by their keys."""


def input_tensors(
    record: TensorDictBase, keys: Sequence[NestedKey], replaced: Replaced | None, draws: bool
) -> dict[NestedKey, Tensor] | None:
    """What modules read, by key, without a tensordict; None where `input_record` has to be made, or to fail.

    Args:
        record: holds the entries at its root.
        keys: what the modules read.
        replaced: what they read instead of entries of the record.
        draws: whether what is replaced has a dimension of draws in front of the batch, and so has the result.
    """
    if skip_existing():
        return None
    inputs: dict[NestedKey, Tensor] = {}
    for key in keys:
        if replaced and key in replaced:
            continue
        value = peek(record, key)
        if not isinstance(value, Tensor):
            return None
        inputs[key] = value
    if replaced:
        if len(inputs) + len(replaced) != len(keys):
            return None
        if draws:
            replaced, n = _of_each_draw(replaced)
            inputs = {key: value.expand(n, *value.shape) for key, value in inputs.items()}
        inputs.update(replaced)
    return inputs


def input_record(
    record: TensorDictBase,
    keys: Sequence[NestedKey],
    replaced: Replaced | None,
    draws: bool,
    *,
    optional: Collection[NestedKey],
    name: str,
) -> TensorDictBase:
    """What a network reads, as a new tensordict.

    Args:
        record: as of `input_tensors`.
        keys: what the network reads.
        replaced: as of `input_tensors`.
        draws: as of `input_tensors`.
        optional: which of the keys the network goes without.
        name: what the network is called in the loss, for messages.

    Raises:
        KeyError: if the record lacks an input, or the network does not read what is replaced.
    """
    inputs = record.select(*keys, strict=False)
    if draws and replaced:
        replaced, n = _of_each_draw(replaced)
        inputs = inputs.expand(n, *inputs.batch_size)
    for key, value in (replaced or {}).items():
        if unravel_key(key) not in keys:
            raise KeyError(
                f"network {name} is to read {key!r} as the loss computes it, and reads "
                f"{', '.join(map(repr, keys))}"
            )
        inputs.set(key, value)
    missing = [key for key in keys if key not in optional and inputs.get(key, None) is None]
    if missing:
        raise KeyError(
            f"network {name} reads {', '.join(map(repr, missing))}, which is not in the tensordict; "
            f"it holds {listed(record)}"
        )
    return inputs


def _of_each_draw(replaced: Replaced) -> tuple[Replaced, int]:
    """What is replaced, ``[draws, *batch, ...]`` each, and the number of draws; of one draw is that of all."""
    n = max(value.shape[0] for value in replaced.values())
    return {key: value.expand(n, *value.shape[1:]) for key, value in replaced.items()}, n
