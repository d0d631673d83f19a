"""The hyperbolic tangent from the real line into an interval, invertible in floating-point numbers."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor
from torch.distributions import AffineTransform, ComposeTransform, TanhTransform, Transform, constraints

Bound: TypeAlias = Tensor | float

LOG_2 = math.log(2.0)


def _limit(dtype: torch.dtype) -> float:
    """The greatest absolute value that is inverted: 1 less the decimal resolution of the dtype."""
    limit = _LIMITS.get(dtype)
    return 1.0 - float(torch.finfo(dtype).resolution) if limit is None else limit


_LIMITS: dict[torch.dtype, float] = {}
_LIMITS.update({dtype: _limit(dtype) for dtype in (torch.float32, torch.float64)})


def clamp_value(x: Tensor, low: Bound, high: Bound) -> Tensor:
    """The value of ``x`` within the bounds, with the gradient of ``x`` itself, also where it is cut off."""
    if not x.requires_grad:
        return torch.clamp(x, low, high)  # type: ignore[arg-type]
    value: Tensor = torch.clamp(x.detach(), low, high)  # type: ignore[arg-type]
    return value + (x - x.detach())


def safe_tanh(x: Tensor) -> Tensor:
    """tanh that stays inside ``(-1, 1)``; its gradient is that of tanh, also where it is cut off.

    Args:
        x: floating point, any shape.
    """
    limit = _limit(x.dtype)
    return clamp_value(x.tanh(), -limit, limit)


def safe_atanh(y: Tensor) -> Tensor:
    """atanh that is finite for all of ``[-1, 1]`` and beyond: what `safe_tanh` can't have given is cut off.

    Args:
        y: floating point, any shape.
    """
    limit = _limit(y.dtype)
    return clamp_value(y, -limit, limit).atanh()


class SafeTanhTransform(TanhTransform):
    """`torch.distributions.TanhTransform` whose inverse is finite for everything that it gives."""

    def _call(self, x: Tensor) -> Tensor:
        return safe_tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return safe_atanh(y)


def bounds(low: Bound, high: Bound, like: Tensor) -> tuple[Bound, Bound]:
    """Both bounds: numbers as they are, tensors in the dtype and on the device of ``like``.

    Raises:
        ValueError: if ``low`` is not below ``high`` everywhere. Tensors are not looked at while code is compiled
            or a CUDA graph is captured.
    """
    if not isinstance(low, Tensor) and not isinstance(high, Tensor):
        low, high, ordered = float(low), float(high), low < high
    else:
        low, high = torch.as_tensor(low).to(like), torch.as_tensor(high).to(like)
        ordered = not values_are_known(like) or bool((low < high).all())
    if not ordered:
        raise ValueError(f"high must be strictly greater than low, got low={low}, high={high}")
    return low, high


def values_are_known(x: Tensor) -> bool:
    """Whether Python may look at values on the device of ``x``: not while code is compiled or a graph captured."""
    return not torch.compiler.is_compiling() and not (x.is_cuda and torch.cuda.is_current_stream_capturing())


def squashed(loc: Tensor, upscale: Bound) -> Tensor:
    """``upscale * tanh(loc / upscale)``, which keeps a location within ``upscale`` of 0."""
    if isinstance(upscale, Tensor):
        upscale = upscale.to(loc.device)
    return upscale * (loc / upscale).tanh()


def interval_support(low: Tensor, high: Tensor, event_dims: int) -> constraints.Constraint:
    """Values of ``event_dims`` dimensions that are all within ``[low, high]``."""
    each = constraints.interval(low, high)  # type: ignore[no-untyped-call]
    return constraints.independent(each, event_dims)  # type: ignore[no-untyped-call]


class Interval:
    """An interval and the map between it and the real line, ``middle + half * tanh(x)``.

    Args:
        low: where it begins, a number or a tensor that broadcasts to the values.
        high: where it ends.
        like: a value; gives dtype and device.
        safe: keep values where they can be inverted; without it they may reach the ends.

    Raises:
        ValueError: if ``low`` is not below ``high``.
    """

    def __init__(self, low: Bound, high: Bound, like: Tensor, *, safe: bool = True) -> None:
        self.low, self.high = bounds(low, high, like)
        self.safe = safe
        self.middle, self.half = (self.low + self.high) / 2, (self.high - self.low) / 2
        self.is_unit = self._is_unit(like)

    def _is_unit(self, like: Tensor) -> bool:
        """Whether it is known to be ``[-1, 1]``, where the map is tanh alone."""
        if isinstance(self.low, Tensor) or isinstance(self.high, Tensor):
            return values_are_known(like) and bool(((self.low == -1.0) & (self.high == 1.0)).all())  # type: ignore[union-attr]
        return self.low == -1.0 and self.high == 1.0

    def into(self, x: Tensor) -> Tensor:
        """From the real line."""
        y = safe_tanh(x) if self.safe else x.tanh()
        if self.is_unit:
            return y
        y = self.half * y
        return y if type(self.middle) is float and self.middle == 0.0 else self.middle + y

    def out_of(self, value: Tensor) -> Tensor:
        """To the real line."""
        y = value if self.is_unit else (value - self.middle) / self.half
        return safe_atanh(y) if self.safe else y.atanh()

    def log_half(self, like: Tensor) -> Tensor | float:
        """Log of half its length, for values such as ``like``."""
        if isinstance(self.half, Tensor):
            return self.half.to(like).log()
        return math.log(self.half)

    def transform(self, like: Tensor) -> Transform:
        """The same map as a transform of torch.distributions, for values such as ``like``."""
        tanh = SafeTanhTransform() if self.safe else TanhTransform()
        if self.is_unit:
            return tanh
        middle, half = (torch.as_tensor(x).to(like) for x in (self.middle, self.half))
        return ComposeTransform([tanh, AffineTransform(middle, half)])

    def support(self, like: Tensor, event_dims: int) -> constraints.Constraint:
        """Values of ``event_dims`` dimensions inside the interval, such as ``like``."""
        low, high = (torch.as_tensor(bound).to(like) for bound in (self.low, self.high))
        return interval_support(low, high, event_dims)
