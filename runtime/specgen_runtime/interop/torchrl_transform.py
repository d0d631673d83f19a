"""`transform_to_torchrl`: a transform for TorchRL's replay buffers. Importing this module imports TorchRL."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from specgen_runtime.interop.imports import import_torchrl
from specgen_runtime.transforms import Transform

__all__ = ["TorchRLTransform", "transform_to_torchrl"]

_Base: Any = import_torchrl("torchrl.envs.transforms").Transform


def transform_to_torchrl(transform: Transform) -> Any:
    """Return a `torchrl.envs.Transform` for replay buffers around a transform.

    Raises:
        TypeError: it is not a `Transform`.
    """
    if not isinstance(transform, Transform):
        raise TypeError(f"transform_to_torchrl needs a Transform, found {type(transform).__name__}")
    return TorchRLTransform(transform)


class TorchRLTransform(_Base):  # type: ignore[misc]
    """A `Transform` in a TorchRL replay buffer: `inv` when data come in, `forward` when they are sampled.

    Args:
        transform: the wrapped transform.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.wrapped = transform

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Transform sampled data."""
        data: TensorDictBase = self.wrapped(tensordict)
        return data

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.wrapped._inv_call(tensordict)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self.forward(next_tensordict)  # where a buffer inverts it, this runs when data come in

    def transform_output_spec(self, output_spec: Any) -> Any:
        """Refuse to be part of an environment.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"this {type(self.wrapped).__name__} was converted for replay buffers: in an environment, use it in a"
            " TransformedEnv of specgen_runtime, and convert that with to_torchrl"
        )
