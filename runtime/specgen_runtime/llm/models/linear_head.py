"""Log-probabilities and entropies of tokens through a linear head, a tile of their logits at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from specgen_runtime.llm.models.logits import (
    are_ids,
    full_precision,
    normalisers_of,
    without_infinities,
)

__all__ = ["linear_log_probs"]

TILE_BYTES = 2 * 2**20
"""How large the float32 logits of a tile are on a CPU, so that they stay in its caches."""
_DEVICE_TILE_BYTES = 16 * 2**20
"""How large they are elsewhere, where many small kernels take the time."""


def linear_log_probs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the log-probability of each target token, and the entropy of the distribution that it is from.

    The logits are made in tiles, of some tokens and some of the vocabulary, so that a tile of the weight is read for many
    tokens. The backward pass makes them anew, in the same tiles: all that is kept is a number or two for each token.

    Args:
        hidden: ``[n, d]``, in the dtype of the head.
        weight: ``[vocabulary, d]``.
        bias: ``[vocabulary]``, or None.
        targets: int64 ``[n]``.
        temperature: what the logits are divided by.
        entropy: whether entropies, in nats, are computed; else None stands for them.

    Returns:
        ``[n]`` each, at least float32.

    Raises:
        ValueError: there are not as many targets as states, or one is outside the vocabulary.
        NotImplementedError: of a second derivative, when it is asked for.
    """
    _check_targets(targets, hidden, weight)
    log_probs, entropies = _LinearLogProbs.apply(hidden, weight, bias, targets, temperature, entropy)  # type: ignore[no-untyped-call]
    return log_probs, entropies if entropy else None


def _check_targets(targets: Tensor, hidden: Tensor, weight: Tensor) -> None:
    if targets.shape != hidden.shape[:1]:
        raise ValueError(f"{list(hidden.shape)} states need as many targets, got {list(targets.shape)}")
    if torch.compiler.is_compiling():
        inside = (targets >= 0) & (targets < len(weight))
        torch._assert_async(inside.all(), "a target is outside the vocabulary")
    elif not are_ids(targets, len(weight)):
        place = int(((targets < 0) | (targets >= len(weight))).nonzero()[0])
        raise ValueError(
            f"target {place} is token {int(targets[place])}, but the vocabulary has {len(weight)} tokens"
        )


class _LinearLogProbs(torch.autograd.Function):
    """See `linear_log_probs`.

    With p the probabilities, y the target and H the entropy, the gradient to the logits is
    ``g (1_y - p)`` from the log-probability and ``-g p (log p + H)`` from the entropy.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        picked = torch.zeros(len(hidden), dtype=_wide(weight.dtype), device=hidden.device)
        normalisers: list[Tensor] = []  # of each tile of the vocabulary, [n]
        means: list[Tensor] = []
        for columns, groups in _tiles(hidden, weight):
            parts = []
            for rows in groups:
                logits = _logits(hidden[rows], weight[columns], _part(bias, columns), temperature)
                ids, inside = _targets_of(targets[rows], columns)
                found = logits.gather(-1, ids[:, None]).squeeze(-1)
                picked[rows] = torch.where(inside, found, picked[rows])
                parts.append(normalisers_of(logits, means=entropy))
            normalisers.append(torch.cat([part[0] for part in parts]))
            means.extend([torch.cat([part[1] for part in parts if part[1] is not None])] if entropy else [])
        of_tiles = torch.stack(normalisers)
        normaliser = of_tiles.logsumexp(0)
        entropies = picked.new_empty(0)
        if entropy:
            entropies = normaliser - (torch.stack(means) * (of_tiles - normaliser).exp()).sum(0)
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropies)
        ctx.settings = temperature, entropy
        return picked - normaliser, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        twice = torch.is_grad_enabled()  # a derivative of this one may be asked for
        with torch.no_grad():
            found = _LinearLogProbs._gradients(ctx, *gradients)
        if twice:
            read = [
                one for one in (*ctx.saved_tensors[:3], *gradients) if one is not None and one.requires_grad
            ]
            found = tuple(None if one is None else _OnlyValue.apply(one, *read) for one in found)  # type: ignore[no-untyped-call]
        return (*found, None, None, None)

    @staticmethod
    def _gradients(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Those to the states, to the weight and to the bias."""
        hidden, weight, bias, targets, normaliser, entropies = ctx.saved_tensors
        temperature, entropy = ctx.settings
        of_log_probs, of_entropies = gradients
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        wide = _wide(weight.dtype)
        of_hidden = torch.zeros_like(hidden, dtype=wide) if needs_hidden else None
        of_weight = torch.empty_like(weight) if needs_weight else None
        of_bias = torch.empty_like(bias) if needs_bias else None
        for columns, groups in _tiles(hidden, weight):
            tile = weight[columns]
            of_tile: Tensor | None = None
            of_shift: Tensor | None = None
            for rows in groups:
                ids, inside = _targets_of(targets[rows], columns)
                g = of_log_probs[rows, None]
                log_p = _logits(hidden[rows], tile, _part(bias, columns), temperature)
                log_p.sub_(normaliser[rows, None])
                if entropy:
                    log_p = without_infinities(log_p)
                    outer = (log_p + entropies[rows, None]).mul_(of_entropies[rows, None]).add_(g)
                    of_logits = log_p.exp_().mul_(outer).neg_()
                else:
                    of_logits = log_p.exp_().mul_(-g)
                of_logits.scatter_add_(-1, ids[:, None], g * inside[:, None])
                if temperature != 1:
                    of_logits.div_(temperature)
                if needs_bias:
                    of_shift = _added(of_shift, of_logits.sum(0))
                narrow = of_logits.to(weight.dtype)
                if of_hidden is not None:
                    of_hidden[rows] += narrow @ tile
                if needs_weight:
                    of_tile = _added(of_tile, (narrow.t() @ hidden[rows]).to(wide))
            if of_weight is not None and of_tile is not None:
                of_weight[columns] = of_tile
            if of_bias is not None and of_shift is not None:
                of_bias[columns] = of_shift
        return (
            None if of_hidden is None else of_hidden.to(hidden.dtype),
            of_weight,
            of_bias,
        )


class _OnlyValue(torch.autograd.Function):
    """A gradient that has none itself: it says so where one is asked for, not where it is only read."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *read: Tensor) -> Tensor:
        """The value, as something that is computed of ``read``."""
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(
            "linear_log_probs has no second derivatives: it makes its logits anew, tile by tile. Where gradients of gradients "
            "are needed, compute the logits, `F.linear(hidden, weight, bias).log_softmax(-1)`"
        )


def _tiles(hidden: Tensor, weight: Tensor) -> Iterator[tuple[slice, list[slice]]]:
    """Parts of the vocabulary, with the groups of tokens that their logits are made for at once: one of none, if there are none."""
    tokens, vocabulary = len(hidden), len(weight)
    size = (TILE_BYTES if hidden.device.type == "cpu" else _DEVICE_TILE_BYTES) // 4
    rows = max(1, min(tokens, max(isqrt(size), size // vocabulary)))
    columns = max(1, min(vocabulary, size // rows))
    groups = [slice(start, min(start + rows, tokens)) for start in range(0, max(tokens, 1), rows)]
    for start in range(0, vocabulary, columns):
        yield slice(start, min(start + columns, vocabulary)), groups


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Tensor:
    logits = full_precision(F.linear(hidden, weight, bias))
    return logits if temperature == 1 else logits.div_(temperature)


def _targets_of(targets: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
    """Where in a tile the targets are, ``[rows]``, and whether they are there: those that are not have a place, too."""
    places = targets - columns.start
    inside = (places >= 0) & (places < columns.stop - columns.start)
    return places * inside, inside


def _part(bias: Tensor | None, columns: slice) -> Tensor | None:
    return None if bias is None else bias[columns]


def _added(total: Tensor | None, more: Tensor) -> Tensor:
    return more if total is None else total.add_(more)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
