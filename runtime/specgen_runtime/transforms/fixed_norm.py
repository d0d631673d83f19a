"""`FixedNorm`: normalises entries by numbers that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys
from specgen_runtime.typing import NestedKey

__all__ = ["FixedNorm", "float_dtype", "normed_specs"]


class FixedNorm(Transform):
    """Normalise entries by numbers that stay as they are: ``(x - loc) / scale``, at reset, at step and offline.

    Args:
        loc: the mean, of the shape of a row or of a batch of rows.
        scale: the deviation.
        in_keys: the entries.
        out_keys: where the normalised ones are written. Default: in their place.
    """

    standard_normal = True

    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self.register_buffer("loc", loc)
        self.register_buffer("scale", scale)

    def _apply_transform(self, obs: Tensor, /) -> Tensor:
        return ((obs.to(self.loc.dtype) - self.loc) / self.scale).to(float_dtype(obs.dtype))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._map(tensordict_reset, tolerant=True)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Show what is normalised as floats without bounds."""
        return normed_specs(observation_spec, self._pairs())

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Show rewards that are normalised as floats without bounds."""
        return normed_specs(reward_spec, self._pairs())


def float_dtype(dtype: torch.dtype | None) -> torch.dtype:
    """The dtype itself where it is of floats, else that of torch's numbers."""
    return dtype if dtype is not None and dtype.is_floating_point else torch.get_default_dtype()


def normed_specs(specs: Composite, pairs: Iterable[tuple[NestedKey, NestedKey]]) -> Composite:
    """Specs, in place, in which the second key of each pair has floats without bounds, if the first is there."""
    found = {key: specs[key] for key in leaf_keys(specs)}
    for key, out in pairs:
        if key in found:
            spec = found[key]
            specs[out] = Unbounded(spec.shape, dtype=float_dtype(spec.dtype), device=spec.device)
    return specs
