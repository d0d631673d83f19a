"""Entropies of distributions and divergences between them, in closed form where there is one, else from draws."""

from __future__ import annotations

import torch
from tensordict.nn import CompositeDistribution
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    Normal,
    TransformedDistribution,
)
from torch.distributions.kl import _KL_REGISTRY
from torch.distributions.kl import kl_divergence as closed_form_kl

from specgen_runtime.modules.distributions.choices import has_choices, kl_of_choices, log_probs
from specgen_runtime.modules.distributions.draws import sample_and_log_prob, sum_of_parts

_WRAPPERS = (Independent, TransformedDistribution)


def has_analytic_entropy(distribution: Distribution) -> bool:
    """Whether the class of a distribution has its entropy in closed form; a composite never has."""
    if isinstance(distribution, CompositeDistribution):
        return False
    if isinstance(distribution, Independent):
        return has_analytic_entropy(distribution.base_dist)
    return type(distribution).entropy is not Distribution.entropy


def has_analytic_kl(p: Distribution, q: Distribution) -> bool:
    """Whether torch knows the divergence of two distributions of these classes in closed form."""
    if has_choices(p) and has_choices(q):
        return True
    if isinstance(p, Independent) and isinstance(q, Independent):
        same = p.reinterpreted_batch_ndims == q.reinterpreted_batch_ndims
        return same and has_analytic_kl(p.base_dist, q.base_dist)
    if isinstance(p, TransformedDistribution) and isinstance(q, TransformedDistribution):
        same = p.transforms == q.transforms and p.event_shape == q.event_shape
        return same and has_analytic_kl(p.base_dist, q.base_dist)
    return any(
        isinstance(p, one) and isinstance(q, other)
        for one, other in _KL_REGISTRY
        if one not in _WRAPPERS and other not in _WRAPPERS
    )


def entropy(distribution: Distribution, samples: int = 1) -> Tensor:
    """The entropy in nats, summed over the parts of a composite.

    Where there is no closed form, or it is not finite, it is the mean of the negative log-probabilities of draws, with
    gradients through the draws where the distribution allows it.

    Args:
        distribution: of torch or tensordict.
        samples: how many draws.

    Returns:
        Shape ``batch``.
    """
    if isinstance(distribution, CompositeDistribution):
        parts = [entropy(part, samples) for part in distribution.dists.values()]
        return sum_of_parts(parts, len(distribution.batch_shape))
    if _is_normal(distribution):
        return distribution.entropy()
    if has_analytic_entropy(distribution):
        exact: Tensor = distribution.entropy()
        if _is_traced(exact) or bool(exact.isfinite().all()):
            return exact
    _, log_prob = sample_and_log_prob(distribution, (samples,), reparameterize=distribution.has_rsample)
    estimate: Tensor = -log_prob.mean(0)
    return estimate


def _is_normal(distribution: Distribution) -> bool:
    """Whether draws would tell no more where the entropy is not finite: then the scale is not, or it is 0."""
    base = distribution.base_dist if isinstance(distribution, Independent) else distribution
    return type(base) is Normal


def _is_traced(value: Tensor) -> bool:
    """Whether no number can decide what is computed: in a graph that is compiled, and inside `torch.vmap`."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(value)


def kl_divergence(p: Distribution, q: Distribution, samples: int = 1) -> Tensor:
    """The Kullback-Leibler divergence of ``q`` from ``p`` in nats, summed over the parts of composites.

    Where there is no closed form it is the mean of ``log p - log q`` over draws of ``p``, without gradients through the
    draws.

    Args:
        p: what is drawn from.
        q: what it is compared with; of the same batch shape.
        samples: how many draws.

    Returns:
        Shape ``batch``.

    Raises:
        ValueError: if composites have different parts.
    """
    if isinstance(p, CompositeDistribution) and isinstance(q, CompositeDistribution):
        if set(p.dists) != set(q.dists):
            raise ValueError(f"the composites have different parts: {list(p.dists)} and {list(q.dists)}")
        parts = [kl_divergence(part, q.dists[name], samples) for name, part in p.dists.items()]
        return sum_of_parts(parts, len(p.batch_shape))
    if has_choices(p) and has_choices(q):
        return kl_of_choices(log_probs(p), log_probs(q))
    if has_analytic_kl(p, q):
        return closed_form_kl(p, q)
    drawn, log_p = sample_and_log_prob(p, (samples,))
    difference: Tensor = log_p - q.log_prob(drawn)
    return difference.mean(0)
