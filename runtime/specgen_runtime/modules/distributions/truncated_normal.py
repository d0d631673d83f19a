"""The normal distribution cut off at both ends of an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from specgen_runtime.modules.distributions.tanh import Bound, bounds, clamp_value, interval_support, squashed

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class TruncatedNormal(Distribution):
    """A normal distribution cut off outside ``[low, high]``, whose last dimension makes up one action.

    Masses are computed in logarithms and from the nearer tail, so that scores have their digits where hardly any of
    the normal distribution is left. Draws follow it to where its tail underflows, 13 ``scale`` from ``loc`` in
    float32 and 37 in float64; an interval beyond that gives its nearer end.

    Args:
        loc: the mean before cutting, shape ``(*batch, n)``.
        scale: the standard deviation before cutting; it broadcasts with ``loc``.
        upscale: with ``tanh_loc``, how far from 0 ``loc`` may be.
        low: least action, a number or a tensor that broadcasts with ``loc``.
        high: greatest action.
        tanh_loc: use ``upscale * tanh(loc / upscale)`` for ``loc``.

    Raises:
        ValueError: if ``low`` is not below ``high``, or ``loc`` has no dimension.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    has_rsample = True
    num_params: int = 2
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float,
        upscale: Bound = 5.0,
        low: Bound = -1.0,
        high: Bound = 1.0,
        tanh_loc: bool = False,
    ) -> None:
        self.tanh_loc = tanh_loc
        self.upscale = upscale
        low, high = bounds(low, high, loc)
        self.low = torch.as_tensor(low, dtype=loc.dtype, device=loc.device)
        self.high = torch.as_tensor(high, dtype=loc.dtype, device=loc.device)
        self.update(loc, scale)

    def update(self, loc: Tensor, scale: Tensor | float) -> None:
        """Take other parameters.

        Raises:
            ValueError: if ``loc`` has no dimension.
        """
        if self.tanh_loc:
            loc = squashed(loc, self.upscale)
        scale = torch.as_tensor(scale, dtype=loc.dtype, device=loc.device)
        self.loc, self.scale = torch.broadcast_tensors(loc, scale)  # type: ignore[no-untyped-call]
        if self.loc.ndim == 0:
            raise ValueError("loc must have a dimension for the numbers of an action, got a scalar")
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args=False)
        wide = torch.promote_types(self.loc.dtype, torch.float32)  # masses in half precision say nothing
        self._begin, self._end = (((edge - self.loc) / self.scale).to(wide) for edge in (self.low, self.high))
        # the same interval mirrored into the lower tail, where masses have all their digits
        self._mirrored = self._begin + self._end > 0
        lower = torch.where(self._mirrored, -self._end, self._begin)
        upper = torch.where(self._mirrored, -self._begin, self._end)
        log_upper = torch.special.log_ndtr(upper)
        self._log_mass = log_upper + _log1mexp(log_upper - torch.special.log_ndtr(lower))
        self._lower, self._upper = lower, upper

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> TruncatedNormal:
        """The same with other batch dimensions."""
        shape = torch.Size(batch_shape) + self.event_shape
        return type(self)(self.loc.expand(shape), self.scale.expand(shape), low=self.low, high=self.high)

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.loc.device

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

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions that depend on the parameters, shape ``(*sample_shape, *batch, n)``."""
        shape = self._extended_shape(torch.Size(sample_shape))
        uniform = torch.rand(shape, dtype=self._lower.dtype, device=self.device)
        below, above = _mass_below(self._lower), _mass_below(self._upper)
        share = torch.where(self._mirrored, 1 - uniform, uniform)
        mass = (below + share * (above - below)).clamp_min(torch.finfo(uniform.dtype).tiny)
        x = torch.special.ndtri(mass)
        return self._within(self.loc + self.scale * torch.where(self._mirrored, -x, x))

    def _within(self, value: Tensor) -> Tensor:
        """In the dtype of the parameters, without what rounding puts outside of the interval."""
        return clamp_value(value.to(self.loc.dtype), self.low, self.high)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions without gradients, shape ``(*sample_shape, *batch, n)``."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of actions, one number for each; minus infinity outside of the interval."""
        x = (value - self.loc) / self.scale
        each = -0.5 * x**2 - self.scale.log() - _LOG_SQRT_2PI - self._log_mass
        return torch.where((value < self.low) | (value > self.high), -torch.inf, each).sum(-1)

    def _densities(self) -> tuple[Tensor, Tensor]:
        """Of the standard normal distribution at both ends, over the mass between them."""
        begin, end = (
            (-0.5 * edge**2 - _LOG_SQRT_2PI - self._log_mass).exp() for edge in (self._begin, self._end)
        )
        return begin, end

    def _moment(self) -> Tensor:
        """The edges weighed by the densities there: 1 less the second moment of the standardised action."""
        begin, end = self._densities()
        finite = ((edge.isfinite(), edge) for edge in (self._begin, self._end))
        first, last = (torch.where(is_finite, edge, 0.0) for is_finite, edge in finite)
        return last * end - first * begin

    def entropy(self) -> Tensor:
        """The entropy in nats, one number for each action."""
        each: Tensor = 0.5 + _LOG_SQRT_2PI + self.scale.log() + self._log_mass - 0.5 * self._moment()
        return each.sum(-1)

    @property
    def mode(self) -> Tensor:
        """The point of the interval that is nearest to ``loc``."""
        nearest: Tensor = self.loc.clamp(self.low, self.high)
        return nearest

    @property
    def mean(self) -> Tensor:
        """The mean after cutting."""
        begin, end = self._densities()
        return self._within(self.loc + self.scale * (begin - end))

    @property
    def variance(self) -> Tensor:
        """The variance after cutting."""
        begin, end = self._densities()
        standard: Tensor = 1 - self._moment() - (begin - end) ** 2
        variance: Tensor = standard.clamp_min(0) * self.scale**2
        return variance

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean after cutting."""
        return self.mean


def _mass_below(x: Tensor) -> Tensor:
    """Of the standard normal distribution; `torch.special.ndtr` has no digits in the lower tail."""
    return 0.5 * torch.erfc(-x / math.sqrt(2.0))


def _log1mexp(x: Tensor) -> Tensor:
    """``log(1 - exp(-x))`` for positive ``x``."""
    return torch.where(x < math.log(2.0), (-torch.expm1(-x)).log(), torch.log1p(-torch.exp(-x)))
