"""Log-probabilities of chosen tokens from hidden states, a few rows of the vocabulary at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from specgen_runtime.llm.kl.generated.kl_estimators import kl_full
from specgen_runtime.llm.models.linear_head import linear_log_probs
from specgen_runtime.llm.models.logits import normalisers_of

__all__ = ["PLAIN", "Chosen", "Warp", "chosen_log_probs", "full_kl_of"]

T = TypeVar("T")

CHUNK_BYTES = 8 * 2**20
"""How large the float32 logits of one chunk are on a CPU: larger ones take more memory, and no less time."""
_DEVICE_CHUNK_BYTES = 16 * 2**20
"""How large they are elsewhere, where reading the weights of the head for each chunk is what takes the time."""


class Chosen(NamedTuple):
    """What is known of scored tokens, float32, ``[n]`` each, or in the places that they have in their sequences."""

    log_probs: Tensor
    entropy: Tensor | None = None
    """of the distributions that they are from, in nats; None unless it was asked for"""


@dataclass(frozen=True)
class Warp:
    """What is done to logits before tokens are drawn from them, in the order of these fields.

    Args:
        temperature: what they are divided by.
        top_k: how many of the likeliest tokens remain; 0 for all.
        top_p: tokens remain that the likelier ones leave less than this probability; 1 for all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be > 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0 (0 for all tokens), got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")

    @property
    def truncates(self) -> bool:
        """Whether some tokens are never drawn."""
        return self.top_k > 0 or self.top_p < 1

    def __call__(self, logits: Tensor, kept: Tensor | None = None) -> Tensor:
        """Return the logits that tokens are drawn from; -inf of those that are never drawn.

        Args:
            logits: ``[n, vocabulary]``, float32.
            kept: int64 ``[n]``, tokens that remain whatever their likelihood: those that were drawn once, so that
                ratios of probabilities are finite.
        """
        if self.temperature != 1:
            logits = logits / self.temperature
        if not self.truncates:
            return logits
        drop = torch.zeros_like(logits, dtype=torch.bool)
        if self.top_k:
            drop = logits < logits.topk(min(self.top_k, logits.shape[-1]), -1).values[..., -1:]
        if self.top_p < 1:
            ordered, order = logits.detach().masked_fill(drop, -torch.inf).sort(-1, descending=True)
            probs = ordered.softmax(-1)
            drop = drop | torch.zeros_like(drop).scatter(-1, order, probs.cumsum(-1) - probs >= self.top_p)
        if kept is not None:
            drop = drop.scatter(-1, kept[..., None], False)
        return logits.masked_fill(drop, -torch.inf)


PLAIN = Warp()
"""Logits as the model gives them."""


def chosen_log_probs(
    hidden: Tensor,
    targets: Tensor,
    logits_of: Callable[[Tensor], Tensor],
    vocabulary: int,
    *,
    linear: nn.Module | None = None,
    warp: Warp = PLAIN,
    entropy: bool = False,
) -> Chosen:
    """Return the log-probability of each target token, without the logits of all of them at once.

    Those of a linear head are made in tiles, see `linear_log_probs`; any other head is run for some tokens at a time, and
    again in the backward pass.

    Args:
        hidden: ``[n, d]``, in the dtype of the model.
        targets: int64 ``[n]``.
        logits_of: makes of rows of ``hidden`` their logits, ``[rows, vocabulary]``, float32 or float64, in memory of
            its own.
        vocabulary: how many logits there are.
        linear: a module whose ``weight`` and ``bias`` are all that ``logits_of`` applies.
        warp: what is done to the logits.
        entropy: whether the entropies are computed, too.
    """
    if linear is not None and not warp.truncates and not torch.is_autocast_enabled(hidden.device.type):
        weight, bias = cast("Any", linear).weight, cast("Any", linear).bias
        found = linear_log_probs(hidden, weight, bias, targets, temperature=warp.temperature, entropy=entropy)
        return Chosen(*found)

    def of_rows(states: Tensor, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        made = _with_graph if torch.is_grad_enabled() else _in_place
        return made(logits_of(states), ids, warp, entropy)

    log_probs, entropies = zip(*_in_chunks(of_rows, hidden, targets, vocabulary), strict=True)
    return Chosen(torch.cat(log_probs), torch.cat(entropies) if entropy else None)


def full_kl_of(
    hidden: tuple[Tensor, Tensor],
    logits_of: tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    warps: tuple[Warp, Warp],
    vocabulary: int,
) -> Tensor:
    """Return the KL divergence of the first model's distribution from the second one's, for each token.

    Args:
        hidden: of both models, ``[n, d]`` each; those of the second one have no gradients.
        logits_of: of both: makes of rows of ``hidden`` their logits, see `chosen_log_probs`.
        warps: of both: what is done to the logits, without truncation.
        vocabulary: how many logits there are.

    Returns:
        Float32 ``[n]``.
    """

    def of_rows(first: Tensor, second: Tensor) -> Tensor:
        log_p = warps[0](logits_of[0](first)).log_softmax(-1)
        with torch.no_grad():
            log_q = warps[1](logits_of[1](second)).log_softmax(-1).to(log_p)
        if log_p.shape != log_q.shape:
            raise ValueError(
                f"the models have vocabularies of {log_p.shape[-1]} and {log_q.shape[-1]} tokens: there is no KL of them"
            )
        return kl_full(log_p, log_q)

    return torch.cat(list(_in_chunks(of_rows, *hidden, vocabulary)))


def _in_chunks(
    of_rows: Callable[[Tensor, Tensor], T], hidden: Tensor, others: Tensor, vocabulary: int
) -> Iterator[T]:
    """What a function gives of a few tokens at a time; with gradients it is run again in the backward pass."""
    size = CHUNK_BYTES if hidden.device.type == "cpu" else _DEVICE_CHUNK_BYTES
    rows = max(16, size // (4 * vocabulary))
    for start in range(0, len(others), rows):
        pair = hidden[start : start + rows], others[start : start + rows]
        if torch.is_grad_enabled():
            yield cast("T", checkpoint(of_rows, *pair, use_reentrant=False, preserve_rng_state=False))
        else:
            yield of_rows(*pair)


def _with_graph(logits: Tensor, targets: Tensor, warp: Warp, entropy: bool) -> tuple[Tensor, Tensor | None]:
    """The log-probabilities and entropies of a chunk, by operations that have gradients."""
    logits = warp(logits, targets)
    log_normaliser = logits.logsumexp(-1)
    log_probs = logits.gather(-1, targets[:, None]).squeeze(-1) - log_normaliser
    if not entropy:
        return log_probs, None
    probs = (logits - log_normaliser[:, None]).exp()
    return log_probs, log_normaliser - (probs * _finite(logits, warp)).sum(-1)


def _in_place(logits: Tensor, targets: Tensor, warp: Warp, entropy: bool) -> tuple[Tensor, Tensor | None]:
    """As `_with_graph`, without gradients, in the memory of the logits."""
    if warp.truncates:
        logits = warp(logits, targets)
    elif warp.temperature != 1:
        logits.div_(warp.temperature)
    picked = logits.gather(-1, targets[:, None]).squeeze(-1)
    normaliser, mean = normalisers_of(logits, means=entropy)
    return picked - normaliser, None if mean is None else normaliser - mean


def _finite(logits: Tensor, warp: Warp) -> Tensor:
    """Logits with 0 for what is never drawn: its probability is 0, and 0 times -inf is NaN."""
    return logits.masked_fill(logits == -torch.inf, 0.0) if warp.truncates else logits
