"""`IndependentNormal`, and normal distributions in few operations on tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal

from specgen_runtime.modules.distributions.tanh import Bound, squashed

Scale: TypeAlias = Tensor | float | Callable[[Tensor], Tensor]

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def scale_of(scale: Scale, loc: Tensor) -> Tensor:
    """The scale as a tensor on the device of ``loc``: given, a number, or a function of ``loc``."""
    if isinstance(scale, Tensor):
        return scale.to(loc.device)
    if callable(scale):
        return scale(loc)
    return torch.as_tensor(scale, device=loc.device, dtype=loc.dtype)


def normal_of(loc: Tensor, scale: Tensor) -> Normal:
    """A normal distribution over numbers, made without broadcasting where there is nothing to broadcast."""
    if loc.shape != scale.shape or torch.compiler.is_compiling():
        return Normal(loc, scale, validate_args=False)
    made = Normal.__new__(Normal)
    made.loc, made.scale = loc, scale
    Distribution.__init__(made, loc.shape, validate_args=False)
    return made


def event_sum(x: Tensor, dims: int) -> Tensor:
    """The sum over the last ``dims`` dimensions."""
    return x.sum(tuple(range(-dims, 0))) if dims else x


class IndependentNormal(Independent[Normal]):
    """A normal distribution whose last dimensions make up one action.

    Args:
        loc: the mean, shape ``(*batch, *event)``.
        scale: the standard deviation: a tensor that broadcasts with ``loc``, a number, or a function of ``loc``
            such as `torch.ones_like`.
        upscale: with ``tanh_loc``, how far from 0 the mean may be.
        tanh_loc: use ``upscale * tanh(loc / upscale)`` as the mean.
        event_dim: number of dimensions of an action.
    """

    num_params: int = 2

    def __init__(
        self, loc: Tensor, scale: Scale, upscale: Bound = 5.0, tanh_loc: bool = False, event_dim: int = 1
    ) -> None:
        self.tanh_loc = tanh_loc
        self.upscale = upscale
        self._event_dim = event_dim
        self.update(loc, scale)

    def update(self, loc: Tensor, scale: Scale) -> None:
        """Take other parameters."""
        if self.tanh_loc:
            loc = squashed(loc, self.upscale)
        super().__init__(normal_of(loc, scale_of(scale, loc)), self._event_dim, validate_args=False)
        self._known_log_scale: Tensor | None = None

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def deterministic_sample(self) -> Tensor:
        """The mean."""
        return self.mode

    @property
    def loc(self) -> Tensor:
        """The mean, shape ``(*batch, *event)``."""
        loc: Tensor = self.base_dist.loc
        return loc

    def action_of(self, latent: Tensor) -> Tensor:
        """The action of a number that was drawn: it is that number."""
        return latent

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of actions of shape ``(*sample, *batch, *event)``, one number for each."""
        base = self.base_dist
        deviation = (value - base.loc) / base.scale
        rest = torch.rsub(self._log_scale(), -self._numbers * LOG_SQRT_2PI)
        return torch.sub(rest, event_sum(deviation * deviation, self._event_dim), alpha=0.5)

    def entropy(self) -> Tensor:
        """The entropy in nats, shape ``batch``."""
        return self._log_scale() + self._numbers * (0.5 + LOG_SQRT_2PI)

    @property
    def _numbers(self) -> int:
        """How many numbers make up an action."""
        return self.event_shape.numel()

    def _log_scale(self) -> Tensor:
        """The logarithms of the scales of an action, summed: `log_prob` and `entropy` both read them."""
        known, scale = self._known_log_scale, self.base_dist.scale
        if known is None or (scale.requires_grad and torch.is_grad_enabled() and not known.requires_grad):
            known = self._known_log_scale = event_sum(scale.log(), self._event_dim)
        return known
