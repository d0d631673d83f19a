"""`Chunks`: calls of a value network on parts of the data, one after the other, to bound their memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from specgen_runtime.objectives.keys import required
from specgen_runtime.objectives.value.options import positive_or_none
from specgen_runtime.typing import NestedKey


@dataclass(frozen=True)
class Chunks:
    """How the data of a value network are cut.

    Attributes:
        size: the most entries of a part along ``dim``; None: no bound.
        count: the number of parts; None: one.
        dim: the batch dimension that is cut.
    """

    size: int | None
    count: int | None
    dim: int

    def call(self, network: TensorDictModuleBase, data: TensorDictBase, key: NestedKey) -> Tensor:
        """Entry ``key`` of what ``network`` writes for ``data``, which may be written to.

        Raises:
            ValueError: if the data do not have the dimension that is cut.
            KeyError: if the network does not write ``key``.
        """
        if self.size is None and self.count is None:
            return _value(network, data, key)
        if not -data.ndim <= self.dim < data.ndim:
            raise ValueError(
                f"value_chunk_dim={self.dim} is no dimension of data of batch size {tuple(data.shape)}"
            )
        dim = self.dim % data.ndim
        length = data.shape[dim]
        size = -(-length // min(self.count, length)) if self.count and length else self.size
        if not length or size is None or size >= length:
            return _value(network, data, key)
        return torch.cat([_value(network, part, key) for part in data.split(size, dim)], dim)


def chunks(size: int | None, count: int | None, alias: int | None, dim: int) -> Chunks:
    """The `Chunks` that the keywords ``value_chunk_size``, ``num_chunks``, ``num_chunk`` and ``value_chunk_dim`` mean.

    Raises:
        TypeError: if one is no integer.
        ValueError: if one is not positive, or they contradict each other.
    """
    size = positive_or_none("value_chunk_size", size)
    count, alias = positive_or_none("num_chunks", count), positive_or_none("num_chunk", alias)
    if count is not None and alias is not None and count != alias:
        raise ValueError(f"num_chunks={count} and num_chunk={alias} are two names of one number")
    count = alias if count is None else count
    if size is not None and count is not None:
        raise ValueError("value_chunk_size and num_chunks exclude each other")
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"value_chunk_dim must be an integer, got {dim!r}")
    return Chunks(size, count, dim)


def _value(network: TensorDictModuleBase, data: TensorDictBase, key: NestedKey) -> Tensor:
    return required(network(data), key, owner=type(network).__name__, role="the value")
