"""Distributions of actions that are certain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, Transform, TransformedDistribution, constraints

from specgen_runtime.modules.distributions.tanh import Bound, Interval


class Delta(Distribution):
    """The distribution of an action that is certain.

    The log-probability is infinite: positive for that action, negative for others.

    Args:
        param: the action, shape ``(*batch, *event)``.
        atol: absolute difference up to which an action counts as that one.
        rtol: relative difference up to which it does.
        batch_shape: leading dimensions. By default, all but the last one of ``param``.
        event_shape: dimensions of an action. By default, the last one.

    Raises:
        ValueError: if the two shapes are given and are not that of ``param``.
    """

    arg_constraints = {"param": constraints.real}  # noqa: RUF012
    has_rsample = True

    def __init__(
        self,
        param: Tensor,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: Sequence[int] | None = None,
        event_shape: Sequence[int] | None = None,
    ) -> None:
        self.update(param)
        self.atol = atol
        self.rtol = rtol
        batch, event = torch.Size(batch_shape or ()), torch.Size(event_shape or ())
        if not batch and not event:
            batch, event = param.shape[:-1], param.shape[-1:]
        elif batch + event != param.shape:
            raise ValueError(
                f"param has shape {tuple(param.shape)}, batch_shape and event_shape make {tuple(batch + event)}"
            )
        super().__init__(batch, event, validate_args=False)

    def update(self, param: Tensor) -> None:
        """Take another action."""
        self.param = param

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> Delta:
        """The same with other batch dimensions."""
        batch = torch.Size(batch_shape)
        return type(self)(
            self.param.expand(batch + self.event_shape), self.atol, self.rtol, batch, self.event_shape
        )

    def _is_equal(self, value: Tensor) -> Tensor:
        param = self.param.expand_as(value)
        equal = (value - param).abs() < self.atol + self.rtol * param.abs()
        return equal.flatten(-len(self.event_shape)).all(-1) if self.event_shape else equal

    def log_prob(self, value: Tensor) -> Tensor:
        """Infinity for the action, minus infinity for others: one number for each action of ``value``."""
        equal = self._is_equal(value)
        infinity = torch.full(equal.shape, torch.inf, dtype=value.dtype, device=value.device)
        return torch.where(equal, infinity, -infinity)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The action, shape ``(*sample_shape, *batch, *event)``."""
        return self.param.expand(*sample_shape, *self.param.shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The action without gradients, shape ``(*sample_shape, *batch, *event)``."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    @property
    def mode(self) -> Tensor:
        """The action."""
        return self.param

    @property
    def mean(self) -> Tensor:
        """The action."""
        return self.param

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self.param)

    @property
    def deterministic_sample(self) -> Tensor:
        """The action."""
        return self.param

    @property
    def support(self) -> constraints.Constraint:
        """All numbers."""
        return constraints.independent(constraints.real, len(self.event_shape))  # type: ignore[no-untyped-call]


class TanhDelta(TransformedDistribution):
    """The distribution of an action that is certain and squashed into ``[low, high]`` by tanh.

    The action is ``(low + high) / 2 + (high - low) / 2 * tanh(param)``, the `deterministic_sample` of a
    `TanhNormal` with that location.

    Args:
        param: before tanh, shape ``(*batch, *event)``.
        low: least action, a number or a tensor that broadcasts with ``param``.
        high: greatest action.
        event_dims: number of dimensions of an action.
        atol: absolute difference, before tanh, up to which an action counts as that one.
        rtol: relative difference up to which it does.
        safe: keep tanh away from -1 and 1, so that each action can be inverted.

    Raises:
        ValueError: if ``low`` is not below ``high``.
    """

    arg_constraints = {}  # noqa: RUF012
    base_dist: Delta

    def __init__(
        self,
        param: Tensor,
        low: Bound = -1.0,
        high: Bound = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        self._interval = Interval(low, high, param, safe=safe)
        rank = param.ndim - event_dims
        self.base_dist = Delta(param, atol, rtol, param.shape[:rank], param.shape[rank:])
        Distribution.__init__(self, param.shape[:rank], param.shape[rank:], validate_args=False)

    def update(self, param: Tensor) -> None:
        """Take another parameter."""
        self.base_dist.update(param)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> TanhDelta:
        """The same with other batch dimensions."""
        return type(self)(
            self.base_dist.param.expand(torch.Size(batch_shape) + self.event_shape),
            self._interval.low,
            self._interval.high,
            len(self.event_shape),
            self.base_dist.atol,
            self.base_dist.rtol,
            self._interval.safe,
        )

    @property
    def low(self) -> Tensor:
        """The least action."""
        return torch.as_tensor(self._interval.low).to(self.base_dist.param)

    @property
    def high(self) -> Tensor:
        """The greatest action."""
        return torch.as_tensor(self._interval.high).to(self.base_dist.param)

    @property
    def min(self) -> Tensor:
        """The least action."""
        return self.low

    @property
    def max(self) -> Tensor:
        """The greatest action."""
        return self.high

    @property
    def transforms(self) -> list[Transform]:  # type: ignore[override]
        """From ``param`` to the action, in one transform."""
        return [self._interval.transform(self.base_dist.param)]

    def log_prob(self, value: Tensor) -> Tensor:
        """Infinity for the action, minus infinity for others: one number for each action of ``value``."""
        return self.base_dist.log_prob(self._interval.out_of(value))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The action, shape ``(*sample_shape, *batch, *event)``."""
        return self.mode.expand(*sample_shape, *self._extended_shape())

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The action without gradients, shape ``(*sample_shape, *batch, *event)``."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    @property
    def mode(self) -> Tensor:
        """The action."""
        return self._interval.into(self.base_dist.param)

    @property
    def mean(self) -> Tensor:
        """The action."""
        return self.mode

    @property
    def deterministic_sample(self) -> Tensor:
        """The action."""
        return self.mode

    @property
    def support(self) -> constraints.Constraint:
        """The interval of each number of an action."""
        return self._interval.support(self.base_dist.param, len(self.event_shape))
