"""`FiniteTensorDictCheck`: an environment's data without NaN and infinity."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import normal_key

__all__ = ["FiniteTensorDictCheck"]


class FiniteTensorDictCheck(Transform):
    """Raises where an entry is NaN or infinite: at reset, at step and offline.

    Raises:
        ValueError: at a call; names the entries.
    """

    def __init__(self) -> None:
        super().__init__(in_keys=[])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        wrong = [
            show_key(normal_key(key))
            for key, value in next_tensordict.items(True, True)
            if isinstance(value, Tensor)
            and (value.is_floating_point() or value.is_complex())
            and not bool(torch.isfinite(value).all())
        ]
        if wrong:
            raise ValueError(f"Encountered a non-finite tensor: {', '.join(wrong)}")
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict)

    def _derives_done(self) -> bool:
        return False
