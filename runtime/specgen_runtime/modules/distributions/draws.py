"""Draws from distributions together with their log-probabilities, and the draw that stands for a distribution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import CompositeDistribution, composite_lp_aggregate
from torch import Tensor
from torch.distributions import Distribution, Independent, TransformedDistribution

from specgen_runtime.typing import NestedKey

Draw: TypeAlias = Tensor | TensorDictBase


def rsample_and_log_prob(distribution: Distribution, sample_shape: Sequence[int] = ()) -> tuple[Draw, Draw]:
    """A draw that depends on the parameters, and its log-probability, with gradients through the draw.

    Of a transformed distribution the log-probability is that of the number that was drawn before the transforms,
    not of one that inverting them gives back, which differs where they saturate.

    Args:
        distribution: of torch or tensordict, with `rsample`.
        sample_shape: leading dimensions of the draws.

    Returns:
        The draw, shape ``(*sample_shape, *batch, *event)``, and the log-probability, ``(*sample_shape, *batch)``. Of
        a composite the draw is a tensordict, and the log-probability one of ``"<name>_log_prob"`` for each of its
        distributions, or their sum under `tensordict.nn.set_composite_lp_aggregate`.

    Raises:
        NotImplementedError: if the distribution has no `rsample`.
    """
    return _draw(distribution, torch.Size(sample_shape), reparameterized=True)


def sample_and_log_prob(
    distribution: Distribution, sample_shape: Sequence[int] = (), *, reparameterize: bool = False
) -> tuple[Draw, Draw]:
    """A draw without gradients, and its log-probability, with gradients to the parameters alone.

    Args:
        distribution: of torch or tensordict.
        sample_shape: leading dimensions of the draws.
        reparameterize: do as `rsample_and_log_prob`.

    Returns:
        As `rsample_and_log_prob`.
    """
    return _draw(distribution, torch.Size(sample_shape), reparameterized=reparameterize)


def sample(distribution: Distribution, sample_shape: Sequence[int] = ()) -> Tensor:
    """A draw without gradients, by `rsample` where there is one: `torch.vmap` does not take ``sample`` of batched parameters.

    Args:
        distribution: of torch.
        sample_shape: leading dimensions of the draws.

    Returns:
        Shape ``(*sample_shape, *batch, *event)``.
    """
    shape = torch.Size(sample_shape)
    if not distribution.has_rsample:
        return distribution.sample(shape)
    with torch.no_grad():
        return distribution.rsample(shape)


def _draw(distribution: Distribution, shape: torch.Size, *, reparameterized: bool) -> tuple[Draw, Draw]:
    if isinstance(distribution, CompositeDistribution):
        return _draw_composite(distribution, shape, reparameterized=reparameterized)
    own = getattr(distribution, "rsample_and_log_prob" if reparameterized else "sample_and_log_prob", None)
    if own is not None:
        draw, log_prob = own(shape)
        return draw, log_prob
    if isinstance(distribution, TransformedDistribution):
        return _draw_transformed(distribution, shape, reparameterized=reparameterized)
    if isinstance(distribution, Independent):
        draw, log_prob = _draw(distribution.base_dist, shape, reparameterized=reparameterized)
        return draw, _summed(log_prob, len(shape) + len(distribution.batch_shape))
    draw = distribution.rsample(shape) if reparameterized else sample(distribution, shape)
    return draw, distribution.log_prob(draw)


def _draw_transformed(
    distribution: TransformedDistribution, shape: torch.Size, *, reparameterized: bool
) -> tuple[Tensor, Tensor]:
    rank = len(shape) + len(distribution.batch_shape)
    x, score = _draw(distribution.base_dist, shape, reparameterized=reparameterized)
    log_prob = _summed(score, rank)
    for transform in distribution.transforms:
        y = transform(x)
        if not reparameterized:
            y = y.detach()
        change = transform.log_abs_det_jacobian(x, y)  # type: ignore[no-untyped-call]
        log_prob = log_prob - _summed(change, rank)
        x = y
    return x, log_prob


def _draw_composite(
    distribution: CompositeDistribution, shape: torch.Size, *, reparameterized: bool
) -> tuple[TensorDictBase, Draw]:
    batch = shape + distribution.batch_shape
    draws: dict[NestedKey, Draw] = {}
    log_probs: dict[NestedKey, Draw] = {}
    for name, part in distribution.dists.items():
        draws[name], log_probs[_with_suffix(name, "_log_prob")] = _draw(
            part, shape, reparameterized=reparameterized
        )
    draw = TensorDict(draws, batch_size=batch)
    if not composite_lp_aggregate():
        return draw, TensorDict(log_probs, batch_size=batch)
    return draw, sum_of_parts(log_probs.values(), len(batch))


def sum_of_parts(parts: Iterable[Draw], rank: int) -> Tensor:
    """The sum of log-probabilities or entropies, each summed over what it has beyond ``rank`` dimensions."""
    total: Tensor | None = None
    for part in parts:
        leaves = part.values(True, True) if isinstance(part, TensorDictBase) else [part]
        for leaf in leaves:
            total = _summed(leaf, rank) if total is None else total + _summed(leaf, rank)
    if total is None:
        raise ValueError("a composite of no distributions has no log-probability")
    return total


def _summed(x: Tensor, rank: int) -> Tensor:
    return x.flatten(rank).sum(-1) if x.ndim > rank else x


def _with_suffix(key: NestedKey, suffix: str) -> NestedKey:
    return key + suffix if isinstance(key, str) else (*key[:-1], key[-1] + suffix)


def deterministic_sample(distribution: Distribution) -> Draw:
    """What stands for a distribution where nothing is to be drawn.

    That is its ``deterministic_sample`` if its class has one, else the transformed one of a transformed
    distribution, else its mode.

    Args:
        distribution: of torch or tensordict.

    Returns:
        Shape ``(*batch, *event)``; of a composite, a tensordict.
    """
    if isinstance(distribution, CompositeDistribution):
        parts = {name: deterministic_sample(part) for name, part in distribution.dists.items()}
        return TensorDict(parts, batch_size=distribution.batch_shape)
    if hasattr(type(distribution), "deterministic_sample"):
        own: Tensor = distribution.deterministic_sample  # type: ignore[attr-defined]
        return own
    if isinstance(distribution, TransformedDistribution):
        x = deterministic_sample(distribution.base_dist)
        for transform in distribution.transforms:
            x = transform(x)
        return x
    if isinstance(distribution, Independent):
        return deterministic_sample(distribution.base_dist)
    mode: Tensor = distribution.mode
    return mode
