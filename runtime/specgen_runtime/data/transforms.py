"""`InvertedTransform`: a transform of a replay buffer that is applied the other way round."""

from __future__ import annotations

from tensordict import TensorDictBase

from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.replay import ReplayTransform

__all__ = ["InvertedTransform"]


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
