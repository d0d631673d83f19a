"""Methods of `VecNorm`: its means and deviations, the way back, and a transform that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.buffers import buffer_name
from specgen_runtime.transforms.compose import Compose
from specgen_runtime.transforms.fixed_norm import FixedNorm
from specgen_runtime.transforms.offline import map_moments
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.statistics import LearningTransform

__all__ = ["NormStatistics"]


class NormStatistics:
    """The means and deviations that a `VecNorm` has learned, as one asks for them."""

    standard_normal = True

    def _learned(self) -> list[tuple[NestedKey, NestedKey, Tensor, Tensor]]:
        """Of each entry its key, that of the normalised one, the mean and the deviation, as they are now.

        Raises:
            RuntimeError: of one of them nothing has been seen.
        """
        norm = cast("LearningTransform[Any, Any]", self)
        if norm.container is None:
            norm = norm.clone()  # whose keys are those that were given
        eps = cast("Any", self).eps
        found: list[tuple[NestedKey, NestedKey, Tensor, Tensor]] = []
        for row in norm.keys:
            with norm._statistics.locked():
                values = {
                    spec.name: norm._statistics.values.get(buffer_name(spec, row))
                    for spec in norm._buffer_specs()
                }
                held = {name: value.clone() for name, value in values.items() if value is not None}
            if "count" not in held or not held["count"] > 0:
                raise RuntimeError(f"{type(self).__name__} has seen nothing of {row.x!r} yet")
            found.append((row.x, row.normed, held["loc"], held["var"].sqrt().clamp_min(eps)))
        return found

    @property
    def loc(self) -> TensorDict:
        """The means, float64, by `in_keys`."""
        return TensorDict({key: mean for key, _, mean, _ in self._learned()}, [])

    @property
    def scale(self) -> TensorDict:
        """The deviations, float64, at least `eps`, by `in_keys`."""
        return TensorDict({key: deviation for key, _, _, deviation in self._learned()}, [])

    def denorm(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The entries as they were before they were normalised, under `in_keys`, in a shallow copy of `tensordict`.

        Raises:
            RuntimeError: nothing has been seen.
        """
        learned = self._learned()
        by_key = {key: (mean, deviation) for key, _, mean, deviation in learned}

        def original(_: NestedKey, key: NestedKey, value: Tensor) -> Tensor:
            mean, deviation = by_key[key]
            return (value.to(torch.float64) * deviation + mean).to(value.dtype)

        tensordict = tensordict.copy()
        map_moments(tensordict, [(out, key) for key, out, _, _ in learned], original)
        return tensordict

    def to_observation_norm(self) -> FixedNorm | Compose:
        """A transform that normalises by the statistics as they are now; of several entries a `Compose` of such.

        Raises:
            RuntimeError: nothing has been seen.
        """
        norms = [FixedNorm(mean, deviation, [key], [out]) for key, out, mean, deviation in self._learned()]
        return norms[0] if len(norms) == 1 else Compose(*norms)
