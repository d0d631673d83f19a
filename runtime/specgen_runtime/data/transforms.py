"""What transforms do in a replay buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensor_collection

from specgen_runtime.data.rows import RowData
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.replay import ReplayTransform

__all__ = ["InvertedTransform", "transformed"]


class InvertedTransform(ReplayTransform):
    """Applies a transform's `forward` to what comes into a replay buffer, and its `inv` to what is sampled.

    Args:
        transform: the transform.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.transform = transform

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.transform._inv_recorded(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.transform._offline(tensordict)


def transformed(transform: Callable[..., Any], data: RowData, generator: torch.Generator | None) -> RowData:
    """Data after a transform's `forward` or `inv`.

    Args:
        transform: one of these methods.
        data: a tensordict or a tensorclass.
        generator: what the transform draws from; None: torch's own.

    Raises:
        TypeError: the data have no keys.
    """
    if not is_tensor_collection(data):
        raise TypeError(
            f"transforms read entries by their key, and this replay buffer holds {type(data).__name__}s: use tensordicts"
        )
    return transform(data) if generator is None else transform(data, generator=generator)
