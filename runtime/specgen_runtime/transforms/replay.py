"""`ReplayTransform`: the base class of transforms of recorded data, which have no place in an environment."""

from __future__ import annotations

from tensordict import TensorDictBase

from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform

__all__ = ["FlattenTensorDict", "ReplayTransform"]


class ReplayTransform(Transform):
    """A transform of recorded data: `inv` when they come into a replay buffer, `forward` when they are sampled."""

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        raise RuntimeError(self._refusal())

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Refuse to be part of an environment.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(self._refusal())

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Refuse to be part of an environment.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(self._refusal())

    def _refusal(self) -> str:
        return (
            f"{type(self).__name__} works on recorded data: give it to a replay buffer, not to an environment"
        )


class FlattenTensorDict(ReplayTransform):
    """Flattens the batch dimensions of data that come into a replay buffer.

    Args:
        inverse: flatten what comes in (`inv`). False: what is sampled (`forward`).
    """

    def __init__(self, inverse: bool = True) -> None:
        super().__init__()
        self.inverse = inverse

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict if self.inverse else tensordict.reshape(-1)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict.reshape(-1) if self.inverse else tensordict
