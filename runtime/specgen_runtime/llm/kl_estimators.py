r"""Estimates of a KL divergence from log-probabilities of sampled tokens.

Of a policy `p`, whose tokens they are, from a reference `q`, with ``r = log p - log q`` of a token and `sg` for what
has no gradient. Values are compared with the sequences' KL; gradients of the estimate as a loss, and of a policy
gradient with the estimate as a penalty in the reward, with that KL's gradient and with that of the KLs of each token
at the states visited, ``sum_t KL(p_t || q_t)`` ("of tokens"). Standard deviations are of sums over sequences of three
tokens of a vocabulary of four, where all of this was found by enumeration.

| name | formula | bias, std of the value | gradient as a loss | as a penalty in the reward |
|---|---|---|---|---|
| ``k1`` | r | 0, 0.46 | 0 in expectation | exact |
| ``abs`` | abs(r) | +0.55, 0.30 | wrong | wrong |
| ``k2`` | r² / 2 | -0.007, 0.11 | exact, of tokens | wrong; vanishes near the reference |
| ``k3`` | exp(-r) - 1 + r | 0, 0.14 | that of the forward KL | reverse minus forward KL |
| ``k3+`` | sg(k3) + k2 - sg(k2) | 0, 0.14 | exact, of tokens | as k3 |
| ``k3_is`` | ρ k3, ρ = p / μ | 0, 0.14 | exact, of tokens, where μ = p | as k3 |
| ``full`` | sum over the vocabulary of p (log p - log q) | 0, 0.05 | exact, of tokens | exact only beside that loss |

So: ``k1`` in the reward; ``k2``, ``k3+`` or ``k3_is`` as a loss. Where tokens were drawn by another policy μ, ratios of
single tokens leave a bias, ratios of whole prefixes do not. k1, k2 and k3 are J. Schulman's, "Approximating KL
divergence" (2020).

The formulas are declared in `schemas/losses/kl_estimators.yaml`, from which the functions are generated, and which the
losses of language models call, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, get_args

from torch import Tensor

from specgen_runtime.llm.kl.generated.kl_estimators import (
    bounded_ratio,
    importance_weight,
    kl_abs,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_is,
    kl_k3_plus,
)

__all__ = ["Estimator", "check_estimator", "k3_kl_token_estimate", "kl_estimate"]

Estimator: TypeAlias = Literal["k1", "abs", "k2", "k3", "k3+", "k3_is", "full"]


def check_estimator(kind: str, full: bool = False) -> None:
    """Refuse a name that is no estimator's.

    Args:
        kind: the name.
        full: whether the distributions of tokens are known, and not only the probabilities of those that were drawn.

    Raises:
        ValueError: it is none, or needs what is not known.
    """
    if kind not in get_args(Estimator):
        raise ValueError(f"estimator is one of {', '.join(map(repr, get_args(Estimator)))}, got {kind!r}")
    if kind == "full" and not full:
        raise ValueError(
            "estimator 'full' needs both models, as RetrieveKL has them: log-probabilities do not tell it"
        )


def kl_estimate(
    ratio: Tensor,
    kind: Estimator = "k1",
    *,
    bound: float = 10.0,
    log_probs: Tensor | None = None,
    sampled_log_probs: Tensor | None = None,
    weights: Literal["token", "prefix"] = "token",
    max_weight: float | None = None,
) -> Tensor:
    """Estimates of the KL divergence; see the table above.

    Args:
        ratio: the log-ratio r, float ``[*batch, time]``: 0 where nothing is scored, and so is the estimate.
        kind: the estimator, but ``full``, which is `kl_full` of distributions.
        bound: of the log-ratio in ``exp(-r)``. The value is that at the bound, the gradient keeps its sign.
        log_probs: for ``k3_is``: of the policy, float ``[*batch, time]``, 0 where nothing is scored.
        sampled_log_probs: for ``k3_is``: of the policy that drew the tokens, the same; None if it is the same policy.
        weights: for ``k3_is``: whether ratios are of single tokens, or of all tokens up to each.
        max_weight: for ``k3_is``: the largest ratio; larger ones have no gradient.

    Returns:
        Float ``[*batch, time]``.

    Raises:
        ValueError: an unknown estimator, or ``full``; ``k3_is`` without `log_probs`.
    """
    check_estimator(kind)
    if kind in _PLAIN:
        return _PLAIN[kind](ratio)
    if kind == "k3":
        return kl_k3(bounded_ratio(ratio, bound=bound))
    if kind == "k3+":
        return kl_k3_plus(ratio, bound=bound)
    if log_probs is None:
        raise ValueError("estimator 'k3_is' needs log_probs, those of the policy: its ratio has a gradient")
    weight = importance_weight(
        log_probs,
        log_probs.detach() if sampled_log_probs is None else sampled_log_probs,
        prefix=weights == "prefix",
        max_weight=math.inf if max_weight is None else max_weight,
    )
    return kl_k3_is(bounded_ratio(ratio, bound=bound), weight)


_PLAIN: Mapping[str, Callable[[Tensor], Tensor]] = {"k1": kl_k1, "abs": kl_abs, "k2": kl_k2}


def k3_kl_token_estimate(target_log_prob: Tensor, log_prob: Tensor) -> Tensor:
    """The estimate k3 of each token's KL, without a bound: ``exp(d) - 1 - d``, ``d = target_log_prob - log_prob``.

    Of tokens that were drawn from the distribution of `log_prob`, it estimates that one's KL from the target.

    Args:
        target_log_prob: of the target, float ``[*batch]``.
        log_prob: of the distribution that the tokens are from, of the same shape.

    Returns:
        Float ``[*batch]``, 0 or more.

    Raises:
        ValueError: the shapes differ.
    """
    if target_log_prob.shape != log_prob.shape:
        raise ValueError(
            f"target_log_prob {list(target_log_prob.shape)} and log_prob {list(log_prob.shape)} must have the same shape:"
            " they are of the same tokens"
        )
    return kl_k3(log_prob - target_log_prob)
