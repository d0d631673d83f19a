"""What the constructor of a generated environment reads its keywords with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specgen_runtime.envs.generated.per_env import per_env_value
from specgen_runtime.envs.generated.scalars import bool_param, float_param, int_param
from specgen_runtime.typing import ArrayLike

__all__ = ["Parameters"]


class Parameters:
    """Reading keywords: one number for all environments, or one for each."""

    _batch_size: torch.Size
    _device: torch.device | None

    _float = staticmethod(float_param)
    _int = staticmethod(int_param)
    _bool = staticmethod(bool_param)

    def _per_env(
        self, name: str, value: ArrayLike, dims: Sequence[int], dtype: torch.dtype, **limits: float
    ) -> Tensor:
        """A parameter that differs between environments, `(*batch_size, *dims)`; see `per_env_value`."""
        return per_env_value(name, value, (*self._batch_size, *dims), dtype, self._device, **limits)
