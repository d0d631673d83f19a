"""`state_values`: the values of states and next states, from a network or from the data."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple, next_key
from specgen_runtime.objectives.hold_out import hold_out_net
from specgen_runtime.objectives.keys import listed, required
from specgen_runtime.objectives.modes import over_sequences
from specgen_runtime.objectives.value.chunks import Chunks
from specgen_runtime.objectives.value.shifted import Slots
from specgen_runtime.typing import NestedKey


class Reading(NamedTuple):
    """Where values come from.

    Attributes:
        network: writes the value of an observation.
        key: where the value stands.
        chunks: how the data of the network are cut.
        apart: call the network for states and for next states, instead of once for both.
        time: the batch dimension of time.
    """

    network: TensorDictModuleBase
    key: NestedKey
    chunks: Chunks
    apart: bool
    time: int


def stored_values(data: TensorDictBase, key: NestedKey, *, owner: str) -> tuple[Tensor, Tensor]:
    """The values that the data hold.

    Raises:
        KeyError: if one is missing.
    """
    return (
        required(data, key, owner=owner, role="the value"),
        required(data, next_key(key), owner=owner, role="the value of the next state"),
    )


def state_values(
    data: TensorDictBase,
    reading: Reading,
    params: TensorDictBase | None,
    target_params: TensorDictBase | None,
) -> tuple[Tensor, Tensor]:
    """The values of the states and of the next states, in one call of the network where that gives the same.

    Gradients reach the observations, and no parameter.

    Args:
        data: a batch of steps.
        reading: where values come from.
        params: of the network; its own without.
        target_params: of the network for next states; ``params`` without.

    Raises:
        KeyError: if an input of the network, or the value that it should write, is missing.
    """
    root, after = root_record(data, reading.network), next_record(data, reading.network)
    dim = _joining(root, reading.time)
    if target_params is not None or reading.apart or dim is None or _normalises_by_batch(reading.network):
        later = params if target_params is None else target_params
        try:
            return network_values(root, reading, params), network_values(after, reading, later)
        except KeyError:
            _refuse_missing(data, root, after)
            raise
    _refuse_missing(data, root, after)
    both = network_values(torch.cat([root, after], dim), reading, params)
    length = root.shape[dim]
    return both.narrow(dim, 0, length), both.narrow(dim, length, length)


def shifted_values(
    data: TensorDictBase, reading: Reading, params: TensorDictBase | None, places: Slots
) -> tuple[Tensor, Tensor]:
    """As `state_values`, by one call on the sequence that `shifted.slots` describes."""
    data = data.copy().set("next", _finite(data, reading.network))
    record = places.sequence(data, reading.network.in_keys)
    try:
        return places.values(network_values(record, reading, params))
    except KeyError:
        _refuse_missing(data, root_record(data, reading.network), next_record(data, reading.network))
        raise


def network_values(record: TensorDictBase, reading: Reading, params: TensorDictBase | None) -> Tensor:
    """What the network says of one record, which may be written to; gradients don't reach its parameters."""
    with _without_gradients(reading.network, params), over_sequences():
        return reading.chunks.call(reading.network, record, reading.key)


def root_record(data: TensorDictBase, network: TensorDictModuleBase) -> TensorDictBase:
    """What the network reads of the states."""
    return data.select(*network.in_keys, strict=False)


def next_record(data: TensorDictBase, network: TensorDictModuleBase) -> TensorDictBase:
    """What the network reads of the next states.

    Observations that a buffer left out (NaN) are those of the state itself: behind a terminal state they don't count,
    elsewhere the value of the state stands for that of the next one. Where trajectories begin is told to recurrent
    networks as in the states, so that they don't run one into the other.
    """
    record = _finite(data, network).select(*network.in_keys, strict=False)
    begins = data.get("is_init", None) if "is_init" in network.in_keys else None
    if isinstance(begins, Tensor):
        record.set("is_init", record.get("is_init", begins) | begins)
    return record


def _finite(data: TensorDictBase, network: TensorDictModuleBase) -> TensorDictBase:
    after = data.get("next", None)
    if after is None:
        raise KeyError(
            f"the value of the next state: 'next' is not in the tensordict; it holds {listed(data)}"
        )
    after = after.copy()
    for key in network.in_keys:
        root, following = data.get(key, None), after.get(key, None)
        if (
            isinstance(root, Tensor)
            and isinstance(following, Tensor)
            and following.is_floating_point()
            and root.shape == following.shape
        ):
            after.set(key, torch.where(following.isnan(), root, following))
    return after


def _refuse_missing(data: TensorDictBase, root: TensorDictBase, after: TensorDictBase) -> None:
    """Refuse data where one moment has an input of the network, and the other has not."""
    now, later = ({*map(as_tuple, record.keys(True, True))} for record in (root, after))
    lacking = [("next", *key) for key in sorted(now - later)] + sorted(later - now)
    if lacking:
        key, whose = lacking[0], "next state" if now - later else "state"
        name = key if len(key) > 1 else key[0]
        raise KeyError(
            f"the value of the {whose}: {name!r}, which the network reads, is not in the tensordict; it holds {listed(data)}. "
            "Rollouts and collectors give it: keep it where the data are stored"
        )


def _joining(record: TensorDictBase, time: int) -> int | None:
    """The batch dimension along which two records are joined: one that is not time."""
    return next((dim for dim in range(record.ndim) if dim != time), None)


def _normalises_by_batch(network: nn.Module) -> bool:
    """Whether a module computes statistics of its batch, so that two calls differ from one on both batches."""
    return any(
        isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training
        for module in network.modules()
    )


def _without_gradients(network: nn.Module, params: TensorDictBase | None) -> AbstractContextManager[Any]:
    if params is not None:
        swapped: AbstractContextManager[Any] = params.detach().to_module(network, preserve_module_state=False)
        return swapped
    return hold_out_net(network) if torch.is_grad_enabled() else nullcontext()
