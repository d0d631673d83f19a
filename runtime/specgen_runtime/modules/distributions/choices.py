"""Probabilities of all choices of a discrete distribution, in whichever form it holds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, OneHotCategorical

from specgen_runtime.modules.distributions.masked import MaskedCategorical, MaskedOneHotCategorical


def has_choices(distribution: Distribution) -> bool:
    """Whether a distribution is one of n choices, as an index or one-hot."""
    return isinstance(distribution, (Categorical, OneHotCategorical, MaskedOneHotCategorical))


def log_probs(distribution: Distribution) -> Tensor:
    """The logarithms of the probabilities of all choices; minus infinity for those that are not allowed.

    They are computed from the logits, so that they are finite for choices whose probabilities underflow.

    Args:
        distribution: of n choices, as an index or one-hot, masked or not.

    Returns:
        Shape ``(*batch, n)``.

    Raises:
        TypeError: if the distribution is not one of choices.
    """
    if isinstance(distribution, (MaskedCategorical, MaskedOneHotCategorical)):
        return distribution.over_all_choices(distribution.logits, -torch.inf)
    if not isinstance(distribution, (Categorical, OneHotCategorical)):
        raise TypeError(f"a {type(distribution).__name__} is not a distribution of n choices")
    logits: Tensor = distribution.logits
    return logits


def probs(distribution: Distribution) -> Tensor:
    """The probabilities of all choices.

    Args:
        distribution: of n choices, as an index or one-hot, masked or not.

    Returns:
        Shape ``(*batch, n)``.

    Raises:
        TypeError: if the distribution is not one of choices.
    """
    return log_probs(distribution).exp()


def kl_of_choices(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The divergence of choices from others in nats, with finite gradients where ``p`` is 0, and infinite where ``q`` alone is.

    Args:
        log_p: logarithms of the probabilities of all choices, shape ``(*batch, n)``.
        log_q: the same of those that they are compared with.
    """
    possible = log_p > -torch.inf
    difference = torch.where(possible, log_p, 0.0) - torch.where(possible, log_q, 0.0)
    return (log_p.exp() * difference).sum(-1)
