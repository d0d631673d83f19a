"""Normal distributions of continuous actions: over all numbers, and squashed into an interval by tanh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    Normal,
    Transform,
    TransformedDistribution,
    constraints,
)

from specgen_runtime.modules.distributions.delta import Delta, TanhDelta
from specgen_runtime.modules.distributions.normal import (
    LOG_SQRT_2PI,
    IndependentNormal,
    Scale,
    event_sum,
    normal_of,
    scale_of,
)
from specgen_runtime.modules.distributions.tanh import LOG_2, Bound, Interval, SafeTanhTransform, squashed
from specgen_runtime.modules.distributions.truncated_normal import TruncatedNormal

__all__ = [
    "Delta",
    "IndependentNormal",
    "SafeTanhTransform",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
]

_NEWTON_STEPS = 40


class _Draw(NamedTuple):
    """An action, the ``x`` that it was made from, and the standard normal noise in that."""

    action: Tensor
    latent: Tensor
    noise: Tensor


class TanhNormal(TransformedDistribution):
    """A normal distribution squashed into ``[low, high]`` by tanh (Haarnoja et al. 2018, appendix C).

    Actions are ``(low + high) / 2 + (high - low) / 2 * tanh(x)`` of normal ``x``; tanh is kept away from -1 and 1 by
    the resolution of the dtype (1e-6 in float32), so that each action can be scored. An action of the data is
    scored at ``x = atanh(…)``. The tensor that was drawn last is scored at the ``x`` that was drawn, which is exact
    where tanh saturates, too.

    There is no closed form of the mean and of the entropy. `get_mode` solves for the mode.

    Args:
        loc: the mean of ``x``, shape ``(*batch, *event)``.
        scale: the standard deviation of ``x``: a tensor that broadcasts with ``loc``, a number, or a function of
            ``loc`` such as `torch.ones_like`.
        upscale: with ``tanh_loc``, how far from 0 the mean may be.
        low: least action, a number or a tensor that broadcasts with ``loc``.
        high: greatest action.
        event_dims: number of dimensions of an action. Defaults to 1, to 0 for a ``loc`` without dimensions.
        tanh_loc: use ``upscale * tanh(loc / upscale)`` as the mean.
        safe_tanh: keep tanh away from -1 and 1; without it actions at the ends have an infinite ``x``.

    Attributes:
        loc: the mean of ``x``, shape ``(*batch, *event)``.
        scale: the standard deviation of ``x``, same shape.

    Raises:
        ValueError: if ``low`` is not below ``high``, or ``loc`` has fewer than ``event_dims`` dimensions.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    has_rsample = True
    num_params: int = 2
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        loc: Tensor,
        scale: Scale,
        upscale: Bound = 5.0,
        low: Bound = -1.0,
        high: Bound = 1.0,
        event_dims: int | None = None,
        tanh_loc: bool = False,
        safe_tanh: bool = True,
    ) -> None:
        loc = torch.as_tensor(loc)
        self._event_dims = min(1, loc.ndim) if event_dims is None else event_dims
        self.tanh_loc = tanh_loc
        self.upscale = upscale
        self._interval = Interval(low, high, loc, safe=safe_tanh)
        self.update(loc, scale)

    def update(self, loc: Tensor, scale: Scale) -> None:
        """Take other parameters.

        Raises:
            ValueError: if ``loc`` has fewer dimensions than an action.
        """
        if self.tanh_loc:
            loc = squashed(loc, self.upscale)
        self.loc, self.scale = loc, scale_of(scale, loc)
        if self.loc.shape != self.scale.shape:
            self.loc, self.scale = torch.broadcast_tensors(self.loc, self.scale)  # type: ignore[no-untyped-call]
        self._last_draw: _Draw | None = None
        rank = self.loc.ndim - self._event_dims
        if rank < 0:
            raise ValueError(
                f"loc of shape {tuple(loc.shape)} has not {self._event_dims} dimensions of an action"
            )
        shape = self.loc.shape
        Distribution.__init__(self, shape[:rank], shape[rank:], validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> TanhNormal:
        """The same with other batch dimensions."""
        shape = torch.Size(batch_shape) + self.event_shape
        return type(self)(
            self.loc.expand(shape),
            self.scale.expand(shape),
            low=self._interval.low,
            high=self._interval.high,
            event_dims=self._event_dims,
            safe_tanh=self._interval.safe,
        )

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.loc.device

    @property
    def low(self) -> Tensor:
        """The least action."""
        return torch.as_tensor(self._interval.low, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def high(self) -> Tensor:
        """The greatest action."""
        return torch.as_tensor(self._interval.high, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def min(self) -> Tensor:
        """The least action."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The greatest action."""
        return self.high

    @property
    def root_dist(self) -> Normal:
        """The distribution of each ``x``."""
        return normal_of(self.loc, self.scale)

    @property
    def base_dist(self) -> Distribution:  # type: ignore[override]
        """The distribution of ``x``."""
        if self._event_dims == 0:
            return self.root_dist
        return Independent(self.root_dist, self._event_dims, validate_args=False)

    @property
    def transforms(self) -> list[Transform]:  # type: ignore[override]
        """From ``x`` to the action, in one transform."""
        return [self._interval.transform(self.loc)]

    @property
    def support(self) -> constraints.Constraint:
        """The interval of each number of an action."""
        return self._interval.support(self.loc, self._event_dims)

    def _score(self, latent: Tensor, deviation: Tensor) -> Tensor:
        """The log-probability of the action of ``latent``, which lies so many scales from the mean."""
        # log(1 - tanh(x)**2) = 2 * log(2) - 2 * fold, without loss of digits far from 0; the constants are left for
        # the end, where there is one number for each action
        fold = latent + torch.nn.functional.softplus(-2.0 * latent)
        each = torch.add(-0.5 * (deviation * deviation), fold, alpha=2.0) - self.scale.log()
        log_half = self._interval.log_half(latent)
        if isinstance(log_half, Tensor):
            each, log_half = each - log_half, 0.0
        constant = self.event_shape.numel() * (LOG_SQRT_2PI + 2.0 * LOG_2 + log_half)
        return event_sum(each, self._event_dims) - constant

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions that depend on the parameters, shape ``(*sample_shape, *batch, *event)``."""
        loc = self.loc
        shape = torch.Size(sample_shape) + loc.shape if sample_shape else loc.shape
        noise = torch.randn(shape, dtype=loc.dtype, device=loc.device)
        return self._drawn(loc + self.scale * noise, noise)

    def action_of(self, latent: Tensor) -> Tensor:
        """The action of an ``x`` of shape ``(*batch, *event)``; it counts as drawn, and is scored at this ``x``."""
        return self._drawn(latent, (latent - self.loc) / self.scale)

    def _drawn(self, latent: Tensor, noise: Tensor) -> Tensor:
        action = self._interval.into(latent)
        self._last_draw = _Draw(action, latent, noise)
        return action

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Actions without gradients, shape ``(*sample_shape, *batch, *event)``."""
        with torch.no_grad():  # a decorated method of what is made in a graph can't be compiled
            return self.rsample(sample_shape)

    def rsample_and_log_prob(self, sample_shape: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Actions and their log-probabilities, both depending on the parameters through the ``x`` that was drawn.

        Returns:
            The actions, shape ``(*sample_shape, *batch, *event)``, and one number for each, ``(*sample_shape, *batch)``.
        """
        action = self.rsample(sample_shape)
        return action, self.log_prob(action)

    def sample_and_log_prob(self, sample_shape: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Actions without gradients, and their log-probabilities, with gradients to the parameters alone.

        Returns:
            As `rsample_and_log_prob`.
        """
        action = self.sample(sample_shape)
        return action, self.log_prob(action)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of actions of shape ``(*sample, *batch, *event)``, one number for each."""
        draw = self._last_draw
        if draw is None or value is not draw.action:
            latent = self._interval.out_of(value)
        elif draw.latent.requires_grad or not (self.loc.requires_grad or self.scale.requires_grad):
            # through the draw, the parameters move x, and its deviation from the mean in scales stays what it is
            return self._score(draw.latent, draw.noise)
        else:
            latent = draw.latent
        return self._score(latent, (latent - self.loc) / self.scale)

    @property
    def deterministic_sample(self) -> Tensor:
        """The action of the mean of ``x``."""
        return self._interval.into(self.loc)

    @property
    def mode(self) -> Tensor:
        """Not available in closed form: `get_mode` solves for it.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "TanhNormal has no mode in closed form; use get_mode(), or deterministic_sample, the action of the mean "
            "(InteractionType.DETERMINISTIC)"
        )

    @property
    def mean(self) -> Tensor:
        """Not available in closed form.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("TanhNormal has no mean in closed form; use sample((n,)).mean(0)")

    def get_mode(self) -> Tensor:
        """The most likely action, without gradients.

        The density of an action has its maximum where ``x = loc + 2 * scale**2 * tanh(x)``. Newton's method comes
        down to the outermost solution from beyond it, where the function is convex.

        Returns:
            Shape ``(*batch, *event)``.
        """
        with torch.no_grad():
            side = torch.where(self.loc < 0, -1.0, 1.0).to(self.loc.dtype)
            loc, spread = self.loc.abs(), 2 * self.scale**2
            x = loc + spread
            for _ in range(_NEWTON_STEPS):
                y = x.tanh()
                slope = (1 - spread * (1 - y**2)).clamp_min(torch.finfo(x.dtype).eps)
                x = torch.maximum(x - (x - loc - spread * y) / slope, loc)
            return self._interval.into(side * x)
