"""Several calls of one network that run as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.objectives.inputs import Replaced
from specgen_runtime.objectives.networks import FunctionalNetwork
from specgen_runtime.typing import NestedKey


def joined_values(
    network: FunctionalNetwork,
    key: NestedKey,
    calls: Sequence[tuple[TensorDictBase, Replaced]],
    *,
    randomness: str = "error",
) -> tuple[Tensor, ...]:
    """What a network with its trained parameters gives for several records, which statistics over the batch see as one.

    Args:
        network: a network of a loss.
        key: one of its ``out_keys``.
        calls: each record, with what the network reads instead of its entries. They stand one behind the other in the
            first batch dimension.
        randomness: for ensembles, what `torch.vmap` is told.

    Returns:
        The values of each record, as `FunctionalNetwork.live` gives them.

    Raises:
        KeyError: as `FunctionalNetwork.live`.
    """
    inputs: list[Any] = [network.inputs(record, replaced) for record, replaced in calls]
    first, alone = int(network.expanded), not inputs[0].batch_dims
    together = cast("TensorDictBase", torch.stack(inputs) if alone else torch.cat(inputs))
    value = network.live(together, key, randomness=randomness)
    return value.unbind(first) if alone else torch.split(value, [one.shape[0] for one in inputs], first)
