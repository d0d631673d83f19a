"""Scoring of tokens: the sequences of a batch, run padded or packed, a budget of tokens at a time."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn

from specgen_runtime.llm.models.checkpointing import checkpointing
from specgen_runtime.llm.models.chosen import PLAIN, Chosen, Warp
from specgen_runtime.llm.models.head import Scorer, accepts, device_of, evaluating
from specgen_runtime.llm.models.logits import are_ids

__all__ = [
    "can_pack",
    "check_positions",
    "check_vocabulary",
    "knows_tokens",
    "scorable",
    "score_tokens",
    "states_before",
]

PACKED_TOKENS = 4096
"""How many tokens are packed at once, unless said: the mask of attention is the square of it."""


def scorable(scored: Tensor, attention: Tensor) -> Tensor:
    """Return which tokens have a log-probability: those asked for that are attended and have a predecessor.

    Args:
        scored: bool ``[*batch, time]``, tokens that are asked for.
        attention: bool ``[*batch, time]``, tokens that are no padding.
    """
    return scored & attention & (attention.cumsum(-1) > 1)


def score_tokens(
    scorer: Scorer,
    ids: Tensor,
    attention: Tensor,
    scored: Tensor,
    *,
    warp: Warp = PLAIN,
    entropy: bool = False,
    packed: bool = False,
    max_tokens: int | None = None,
    max_rows: int | None = None,
) -> Chosen:
    """Return the log-probability of each scored token given those before it, and exactly 0 elsewhere.

    Padding may be on either side, or in between: a sequence is the tokens of a row that are attended. The model runs
    in evaluation mode; layers that checkpoint their gradients do so nevertheless (see `checkpointing`). It sees each sequence up to its last scored token; those without any are not run. Padding that
    it sees is behind a sequence, where a causal model needs neither a mask nor positions.

    Args:
        scorer: of the model; see `find_scorer`.
        ids: int64 ``[rows, time]``.
        attention: bool ``[rows, time]``, tokens that are no padding.
        scored: bool ``[rows, time]``, tokens whose log-probability is asked for. The first of a sequence has none.
        warp: what is done to the logits.
        entropy: whether the entropies of the distributions that the tokens are from are computed, too.
        packed: whether sequences are put behind each other, where `can_pack` says that the model keeps them apart.
        max_tokens: how many tokens, with padding, are run at once; a longer sequence is run alone. None for all.
        max_rows: how many sequences are run at once; None for all.

    Raises:
        ValueError: see `check_vocabulary`.

    Returns:
        Float32 (float64 for such a model) ``[rows, time]``, of the device of ``ids``. With gradients enabled they
        have some to the parameters, zeros where nothing is scored.
    """
    home, device = ids.device, device_of(scorer.model)
    ids, attention, scored = (value.to(device) for value in (ids, attention, scored))
    rows, columns = scorable(scored, attention).nonzero(as_tuple=True)
    if not len(rows):
        zeros = _attached_zeros(scorer.model, ids).to(home)
        return Chosen(zeros, zeros if entropy else None)
    parts: list[Chosen] = []
    order: list[Tensor] = []
    places = rows, columns
    with closing(_runs(scorer, ids, attention, places, packed, max_tokens, max_rows)) as runs:
        for which, states in runs:
            targets = ids[rows[which], columns[which]]
            parts.append(scorer.chosen(states, targets, warp=warp, entropy=entropy))
            order.append(which)
            del states  # before the model is run again
    back = torch.cat(order)
    where = rows[back], columns[back]

    def placed(values: list[Tensor]) -> Tensor:
        flat = torch.cat(values)
        return flat.new_zeros(ids.shape).index_put(where, flat).to(home)

    entropies = [part.entropy for part in parts if part.entropy is not None]
    return Chosen(placed([part.log_probs for part in parts]), placed(entropies) if entropy else None)


def states_before(
    scorer: Scorer,
    ids: Tensor,
    attention: Tensor,
    scored: Tensor,
    *,
    packed: bool = False,
    max_tokens: int | None = None,
    max_rows: int | None = None,
) -> Tensor:
    """Return what the model makes the logits of scored tokens of, ``[n, width]``, row by row.

    Arguments are those of `score_tokens`; all that are scored have a predecessor, and there is one.
    """
    ids, attention, scored = (value.to(device_of(scorer.model)) for value in (ids, attention, scored))
    rows, columns = scored.nonzero(as_tuple=True)
    runs = list(_runs(scorer, ids, attention, (rows, columns), packed, max_tokens, max_rows))
    order = torch.cat([which for which, _ in runs])
    return torch.cat([states for _, states in runs])[order.argsort()]


def _runs(
    scorer: Scorer,
    ids: Tensor,
    attention: Tensor,
    scored: tuple[Tensor, Tensor],
    packed: bool,
    max_tokens: int | None,
    max_rows: int | None,
) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Run the model on some sequences at a time: which scored tokens are in them, and what their logits are made of.

    Until it is closed, the model is in evaluation mode.
    """
    check_vocabulary(scorer.model, ids, attention)
    rows, columns = scored
    places = attention.long().cumsum(-1) - 1  # of tokens in their own sequences
    wanted = places[rows, columns]
    lengths = ids.new_zeros(len(ids)).scatter_reduce_(0, rows, wanted, "amax")
    in_rows = lengths.tolist()
    check_positions(scorer.model, max(in_rows))
    with evaluating(scorer.model), checkpointing(scorer.model):
        for members in _groups(in_rows, packed, max_tokens, max_rows):
            index = torch.tensor(members, device=ids.device)
            kept = attention[index] & (places[index] < lengths[index, None])
            inputs, starts = (_packed if packed else _padded)(scorer.model, ids[index], kept, places[index])
            row_of = torch.full_like(lengths, -1)
            row_of[index] = torch.arange(len(members), device=ids.device)
            which = (row_of[rows] >= 0).nonzero().squeeze(-1)
            row, before = row_of[rows[which]], wanted[which] - 1
            if packed:
                row, before = torch.zeros_like(row), before + starts[row]
            yield which, scorer.states(inputs, row, before)


def check_vocabulary(model: nn.Module, ids: Tensor, attention: Tensor) -> None:
    """Refuse tokens that a model does not know, which end a process on a GPU.

    Args:
        model: the causal model.
        ids: int64 ``[rows, time]``.
        attention: bool ``[rows, time]``, those that count.

    Raises:
        ValueError: one is outside the vocabulary.
    """
    size = _vocabulary_of(model)
    if size is None or are_ids(ids, size):
        return
    outside = attention & ((ids < 0) | (ids >= size))
    if bool(outside.any()):
        row, column = outside.nonzero()[0].tolist()
        raise ValueError(
            f"row {row}, token {column} is {int(ids[row, column])}, but {type(model).__name__} has a vocabulary of {size} "
            "tokens: is it of another tokenizer?"
        )


def knows_tokens(model: nn.Module, ids: Tensor) -> bool:
    """Whether ids are all of tokens that a model knows, as far as it says how many these are."""
    size = _vocabulary_of(model)
    return size is None or are_ids(ids, size)


def _vocabulary_of(model: nn.Module) -> int | None:
    return getattr(_embeddings_of(model), "num_embeddings", None)


def _embeddings_of(model: nn.Module) -> nn.Module | None:
    get: Any = getattr(model, "get_input_embeddings", None)
    return get() if callable(get) else None


def check_positions(model: nn.Module, length: int) -> None:
    """Refuse a sequence with more tokens than there are positions in a table of a model, which end a process on a GPU.

    Args:
        model: the causal model.
        length: of the longest sequence that it reads.

    Raises:
        ValueError: it is longer. Models that compute positions read on.
    """
    config: Any = getattr(model, "config", None)
    known: int | None = getattr(config, "max_position_embeddings", None)
    if known is None or length <= known:
        return
    words = _embeddings_of(model)
    tables = (one for one in model.modules() if isinstance(one, nn.Embedding) and one is not words)
    if any(known <= one.num_embeddings <= known + 2 for one in tables):  # OPT's has two more
        raise ValueError(
            f"a sequence has {length} tokens, but {type(model).__name__} has {known} positions: cut it (max_length), or ask "
            "for shorter answers (max_new_tokens)"
        )


def can_pack(scorer: Scorer) -> bool:
    """Whether a model keeps sequences apart that are packed; if it doesn't, there is a warning.

    It is tried: two short sequences packed, against each of them alone.
    """
    size = scorer.model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    attention = torch.tensor([[True] * 4 + [False] * 3, [True] * 7], device=device_of(scorer.model))
    ids = torch.linspace(size - 1, 0, 14, device=attention.device).long().view(2, 7)
    try:
        with torch.no_grad():
            alone = score_tokens(scorer, ids, attention, attention).log_probs
            packed = score_tokens(scorer, ids, attention, attention, packed=True).log_probs
        stored = next(scorer.model.parameters()).dtype
        exact = scorer.autocast is None and stored in (torch.float32, torch.float64)
        tolerance = 1e-4 if exact else 5e-2
        apart = bool((packed - alone).abs().max() <= tolerance * alone.abs().max())
        why = "it mixes them"
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        apart, why = False, f"{type(error).__name__}: {error}"
    if not apart:
        warnings.warn(
            f"{type(scorer.model).__name__} can't run packed sequences ({why}): they are padded", stacklevel=2
        )
    return apart


def _groups(
    lengths: list[int], packed: bool, max_tokens: int | None, max_rows: int | None
) -> Iterator[list[int]]:
    """Rows that are run together, the longest first, without those of length 0."""
    if packed and max_tokens is None:
        max_tokens = PACKED_TOKENS
    group: list[int] = []
    tokens = 0
    for row in sorted((row for row in range(len(lengths)) if lengths[row]), key=lambda row: -lengths[row]):
        cost = lengths[row if packed or not group else group[0]]
        if group and (len(group) == max_rows or (max_tokens is not None and tokens + cost > max_tokens)):
            yield group
            group, tokens, cost = [], 0, lengths[row]
        group.append(row)
        tokens += cost
    yield group


def _padded(model: nn.Module, ids: Tensor, kept: Tensor, places: Tensor) -> tuple[dict[str, Any], Tensor]:
    """What the model is called with for some rows, padded behind, and where the rows begin."""
    rows, columns = kept.nonzero(as_tuple=True)
    inputs = ids.new_zeros(len(ids), int(kept.sum(-1).max()))
    inputs[rows, places[rows, columns]] = ids[rows, columns]
    return {"input_ids": inputs}, torch.zeros_like(ids[:, 0])


def _packed(model: nn.Module, ids: Tensor, kept: Tensor, places: Tensor) -> tuple[dict[str, Any], Tensor]:
    """As `_padded`, for rows behind each other in one row; each token attends to those of its own row."""
    sizes = kept.sum(-1)
    inputs: dict[str, Any] = {"input_ids": ids[kept][None]}
    positions = places[kept]
    if accepts(model, "position_ids"):
        inputs["position_ids"] = positions[None]
    config: Any = getattr(model, "config", None)
    if not str(getattr(config, "_attn_implementation", "")).startswith("flash"):  # which reads the positions
        segments = torch.repeat_interleave(torch.arange(len(ids), device=ids.device), sizes)
        inputs["attention_mask"] = _block_masks(config, segments, positions, next(model.parameters()).dtype)
    return inputs, sizes.cumsum(0) - sizes


def _block_masks(
    config: Any, segments: Tensor, positions: Tensor, dtype: torch.dtype
) -> Tensor | Mapping[str, Tensor]:
    """Causal masks of packed sequences, to be added to the scores of attention, ``[1, 1, n, n]``.

    Boolean ones are silently taken for numbers by models without fused attention.
    """
    back = positions[:, None] - positions
    causal = (segments[:, None] == segments) & (back >= 0)

    def added(allowed: Tensor) -> Tensor:
        return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(
            ~allowed, torch.finfo(dtype).min
        )[None, None]

    kinds = set(getattr(config, "layer_types", None) or ())
    window: int = getattr(config, "sliding_window", None) or 0
    if kinds - {"full_attention", "sliding_attention"}:
        raise NotImplementedError(f"layers of the types {', '.join(sorted(kinds))}")
    if "sliding_attention" in kinds:
        return {"full_attention": added(causal), "sliding_attention": added(causal & (back < window))}
    if window and not kinds and getattr(config, "use_sliding_window", True):
        return added(causal & (back < window))
    return added(causal)


def _attached_zeros(model: nn.Module, ids: Tensor) -> Tensor:
    """Zeros ``[rows, time]`` that the backward pass goes through, to gradients of zero."""
    zeros = torch.zeros(ids.shape, device=ids.device)
    first = next((one for one in model.parameters() if one.requires_grad), None)
    return zeros if first is None or not torch.is_grad_enabled() else zeros + first.flatten()[:0].sum()
