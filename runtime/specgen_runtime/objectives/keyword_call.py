"""Calls a loss with tensors by keyword instead of a tensordict: `loss(observation=..., action=...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.objectives.keys import flat_name
from specgen_runtime.typing import NestedKey


def packed(
    inputs: Mapping[str, Any],
    in_keys: Sequence[NestedKey],
    *,
    owner: str,
    features: Mapping[NestedKey, int],
) -> TensorDict:
    """A tensordict of keyword inputs, whose names are keys joined by underscores.

    Its batch dimensions are the leading ones that all the tensors share, and no more than those that entries have
    beside their own; where none of these is given, all but the last one of the smallest tensor.

    Args:
        inputs: the tensors.
        in_keys: what the loss or estimator reads.
        owner: its name, for messages.
        features: how many dimensions of its own each of some entries has, behind those of the batch: rewards and flags, of
            shape ``[*batch, 1]``, have one.

    Raises:
        TypeError: for a keyword that stands for no key of the loss, or a value that is not a tensor.
    """
    keys = {flat_name(key): key for key in in_keys}
    unknown = [name for name in inputs if name not in keys]
    if unknown:
        raise TypeError(
            f"{owner} got unexpected inputs {', '.join(map(repr, unknown))}; it takes {', '.join(sorted(keys))}"
        )
    tensordict = TensorDict({}, batch_size=[])
    for name, value in inputs.items():
        if not isinstance(value, (Tensor, TensorDictBase)):
            raise TypeError(f"{owner}: {name} must be a tensor, got {type(value).__name__}")
        tensordict.set(keys[name], value)
    given = [
        tensor.ndim - own
        for key, own in features.items()
        if isinstance(tensor := tensordict.get(key, None), Tensor)
    ]
    if features and not given:
        # What is missing is told by who reads it; others have a dimension of their own.
        given = [max(1, min((tensordict.get(keys[name]).ndim for name in inputs), default=1) - 1)]
    tensordict.auto_batch_size_(min(given, default=None))
    return tensordict


def features_by_key(ranks: Mapping[str, int], tensor_keys: object) -> dict[NestedKey, int]:
    """How many dimensions of its own each of some entries has, in both records.

    Args:
        ranks: those of roles.
        tensor_keys: the keys of the roles, as attributes.
    """
    keys = {getattr(tensor_keys, role): rank for role, rank in ranks.items() if hasattr(tensor_keys, role)}
    return {**keys, **{next_key(key): rank for key, rank in keys.items()}}


def unpacked(outputs: TensorDictBase, out_keys: Sequence[NestedKey]) -> Any:
    """The outputs in the order of ``out_keys``, those that are there: one tensor, or a tuple of them."""
    values = tuple(outputs.get(key) for key in out_keys if key in outputs.keys(True))
    return values[0] if len(values) == 1 else values
