"""The Beta distribution on an interval."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Beta, Distribution, constraints
from torch.distributions.kl import kl_divergence, register_kl
from torch.nn.functional import softplus

from specgen_runtime.modules.distributions.tanh import (
    Bound,
    bounds,
    clamp_value,
    interval_support,
    values_are_known,
)


class ScaledBeta(Distribution):
    """A Beta distribution stretched to ``[low, high]``, whose last dimension makes up one action (Chou et al. 2017).

    It has all of its mass between the bounds, so that nothing is cut off or squashed. Draws stay away from the bounds
    by the resolution of the dtype (1e-6 of the interval in float32), and actions at the bounds are scored there,
    so that each has a finite log-probability.

    Args:
        concentration1: weight at ``high``, often called alpha, shape ``(*batch, n)``; positive. Where both weights are
            greater than 1 the density has one peak.
        concentration0: weight at ``low``, often called beta; it broadcasts with the other.
        low: least action, a number or a tensor that broadcasts with the weights.
        high: greatest action.

    Raises:
        ValueError: if ``low`` is not below ``high``, or the weights have no dimension.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    has_rsample = True
    num_params: int = 2
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Tensor, concentration0: Tensor, low: Bound = 0.0, high: Bound = 1.0
    ) -> None:
        low, high = bounds(low, high, concentration1)
        self.low, self.high = (
            torch.as_tensor(bound, dtype=concentration1.dtype, device=concentration1.device)
            for bound in (low, high)
        )
        self.update(concentration1, concentration0)

    def update(self, concentration1: Tensor, concentration0: Tensor) -> None:
        """Take other parameters.

        Raises:
            ValueError: if they have no dimension.
        """
        self.concentration1, self.concentration0 = torch.broadcast_tensors(concentration1, concentration0)  # type: ignore[no-untyped-call]
        shape = self.concentration1.shape
        if not shape:
            raise ValueError(
                "concentration1 must have a dimension for the numbers of an action, got a scalar"
            )
        super().__init__(shape[:-1], shape[-1:], validate_args=False)
        wide = torch.promote_types(
            self.concentration1.dtype, torch.float32
        )  # there is no lgamma of half precision
        self._beta = Beta(self.concentration1.to(wide), self.concentration0.to(wide), validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> ScaledBeta:
        """The same with other batch dimensions."""
        shape = torch.Size(batch_shape) + self.event_shape
        weights = self.concentration1.expand(shape), self.concentration0.expand(shape)
        return type(self)(*weights, low=self.low, high=self.high)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.concentration1.device

    @property
    def min(self) -> Tensor:
        """The least action."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The greatest action."""
        return self.high

    @property
    def support(self) -> constraints.Constraint:
        """The interval of each number of an action."""
        return interval_support(self.low, self.high, 1)

    def _stretched(self, unit: Tensor) -> Tensor:
        """From ``[0, 1]`` to the interval, in the dtype of the parameters."""
        width = self.high - self.low
        return clamp_value((self.low + width * unit).to(self.concentration1.dtype), self.low, self.high)

    def _away_from_bounds(self, unit: Tensor) -> Tensor:
        """Of values in ``[0, 1]``, those that have a density."""
        margin = float(torch.finfo(self.concentration1.dtype).resolution)
        return clamp_value(unit, margin, 1.0 - margin)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions that depend on the parameters, shape ``(*sample_shape, *batch, n)``."""
        return self._stretched(self._away_from_bounds(self._beta.rsample(torch.Size(sample_shape))))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions without gradients, shape ``(*sample_shape, *batch, n)``."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of actions, one number for each; minus infinity outside of the interval."""
        width = self.high - self.low
        unit = self._away_from_bounds(((value - self.low) / width).to(self._beta.concentration1.dtype))
        each = self._beta.log_prob(unit) - width.log()  # type: ignore[no-untyped-call]
        return torch.where((value < self.low) | (value > self.high), -torch.inf, each).sum(-1)

    def entropy(self) -> Tensor:
        """The entropy in nats, one number for each action."""
        each: Tensor = self._beta.entropy() + (self.high - self.low).log()  # type: ignore[no-untyped-call]
        return each.sum(-1)

    @property
    def mode(self) -> Tensor:
        """Where the density is greatest: the middle of the interval where it is even, an end where only those have a peak."""
        above, below = self._beta.concentration1 - 1, self._beta.concentration0 - 1
        peaked = (above > 0) & (below > 0)
        inside = above / torch.where(peaked, above + below, 1.0)
        at_end = torch.where(above == below, 0.5, (above > below).to(above.dtype))
        return self._stretched(torch.where(peaked, inside, at_end))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._stretched(self._beta.mean)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        variance: Tensor = self._beta.variance * (self.high - self.low) ** 2
        return variance

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean."""
        return self.mean


@register_kl(ScaledBeta, ScaledBeta)  # type: ignore[no-untyped-call, untyped-decorator]
def _divergence(p: ScaledBeta, q: ScaledBeta) -> Tensor:
    """Of distributions on one interval, whose width does not matter.

    Raises:
        ValueError: if they are on two. It is not looked at while code is compiled or a CUDA graph is captured.
    """
    if values_are_known(p.low) and not bool(((p.low == q.low) & (p.high == q.high)).all()):
        raise ValueError(
            f"distributions on two intervals, from {p.low} to {p.high} and from {q.low} to {q.high}"
        )
    each: Tensor = kl_divergence(p._beta, q._beta)
    return each.sum(-1)


class BetaParamExtractor(nn.Module):
    """Splits what a network gives into the two weights of a `ScaledBeta`, each ``1 + softplus(x)``: one peak between the bounds."""

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Both weights, and what else came.

        Args:
            tensors: the last dimension of the first is of even size.

        Returns:
            ``concentration1`` and ``concentration0``, shape ``(*batch, n)`` where the first has ``(*batch, 2 * n)``, then the others.
        """
        first, *others = tensors
        concentration1, concentration0 = (1.0 + softplus(first)).chunk(2, -1)
        return concentration1, concentration0, *others
