"""Conversations as tokens: rendered and tokenised once, for every model that reads the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from specgen_runtime.llm.conversations.assistant import mask_of, spans_of
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.messages import Chat
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.ragged import Ragged

__all__ = ["Rendered", "kept_tokens", "render_batch", "tokenizer_identity"]


@dataclass(frozen=True)
class Rendered:
    """Rendered conversations.

    Attributes:
        text: of each row.
        ids: the tokens of each row, int64; row for row as long as `assistant`.
        assistant: whether the assistant said each token, bool; None if that was not asked for.
        source: tells which renderings are equal for equal conversations: the tokenizer's identity, the template and
            the options.
    """

    text: tuple[str, ...]
    ids: Ragged
    assistant: Ragged | None
    source: str


def render_batch(
    chats: Sequence[Chat],
    tokenizer: Any,
    *,
    chat_template: str | None = None,
    chat_template_name: str | None = None,
    add_generation_prompt: bool = False,
    continue_final_message: bool = False,
    assistant_mask: bool = True,
    roles: Collection[str] = ("assistant",),
    max_length: int | None = None,
    truncation_side: str | None = None,
    empty: str = "error",
    variables: Mapping[str, Any] | None = None,
) -> Rendered:
    """Render conversations and tokenise them, with the tokens that the assistant said.

    Args:
        chats: one for each row.
        tokenizer: of `transformers`; a fast one if `assistant_mask` is asked for.
        chat_template: a template; see `template_of`.
        chat_template_name: the name of one.
        add_generation_prompt: whether to add what precedes an answer.
        continue_final_message: whether to end with the last message's content.
        assistant_mask: whether to find the assistant's tokens.
        roles: whose tokens these are.
        max_length: longer rows are cut, ids and mask alike.
        truncation_side: where: ``"left"`` or ``"right"``; None for the tokenizer's.
        empty: what to do with a row none of whose tokens can be scored: ``"error"``, ``"zero"``, or
            ``"error_where_said"``: an error if somebody of `roles` says something in it. The first token of a row cannot be, since nothing
            precedes it.
        variables: further variables of the template.

    Raises:
        ValueError: the template refuses a conversation; the assistant's tokens are not found, or there are none to
            score; the tokenizer gives no character offsets.
    """
    template = template_of(tokenizer, chat_template, chat_template_name)
    options: dict[str, Any] = {
        **(variables or {}),
        "add_generation_prompt": add_generation_prompt,
        "continue_final_message": continue_final_message,
    }
    source = repr((tokenizer_identity(tokenizer), template, options, max_length, truncation_side))
    keep = kept_tokens(tokenizer, max_length, truncation_side)
    if not assistant_mask:
        text = [render(template, chat, tokenizer, **options) for chat in chats]
        rows = tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return Rendered(tuple(text), _ragged([ids[keep] for ids in rows], torch.int64), None, source)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} has no character offsets: the assistant's tokens need a fast tokenizer"
        )
    turns = [spans_of(template, chat, tokenizer, roles=roles, **options) for chat in chats]
    text = [each.text for each in turns]
    encoded: Any = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True) if text else {}
    ids: list[list[int]] = encoded.get("input_ids", [])
    special = _ends_of_turns(tokenizer)
    masks = [mask_of(ids[k], encoded["offset_mapping"][k], turns[k], special) for k in range(len(ids))]
    ids, masks = [row[keep] for row in ids], [mask[keep] for mask in masks]
    if empty != "zero":
        said = [any(message["role"] in roles for message in chat) for chat in chats]
        _check_scored(chats, masks, roles, max_length, [True] * len(chats) if empty == "error" else said)
    return Rendered(tuple(text), _ragged(ids, torch.int64), _ragged(masks, torch.bool), source)


def _ragged(rows: Sequence[Sequence[Any]], dtype: torch.dtype) -> Ragged:
    return Ragged.of([torch.tensor(row, dtype=dtype) for row in rows], dtype)


def kept_tokens(tokenizer: Any, max_length: int | None, side: str | None) -> slice:
    """Which tokens of a row stay where longer ones are cut.

    Args:
        tokenizer: says at which side they are cut, unless `side` does.
        max_length: of rows; None for any.
        side: ``"left"`` or ``"right"``.

    Raises:
        ValueError: `side` is neither, or `max_length` below 1.
    """
    side = side or getattr(tokenizer, "truncation_side", "right")
    if side not in ("left", "right"):
        raise ValueError(f"truncation_side is 'left' or 'right', got {side!r}")
    if max_length is None:
        return slice(None)
    if max_length < 1:
        raise ValueError(f"max_length is at least 1, got {max_length}")
    return slice(max_length) if side == "right" else slice(-max_length, None)


def _ends_of_turns(tokenizer: Any) -> frozenset[int]:
    """The ids of special tokens that can end a turn: all but the one that begins a sequence."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    ids = {*tokenizer.all_special_ids, *(index for index, token in added.items() if token.special)}
    begins = tokenizer.bos_token_id
    return frozenset(ids if begins == tokenizer.eos_token_id else ids - {begins})


def _check_scored(
    chats: Sequence[Chat],
    masks: Sequence[Sequence[bool]],
    roles: Collection[str],
    max_length: int | None,
    needed: Sequence[bool],
) -> None:
    for row, (chat, mask) in enumerate(zip(chats, masks, strict=True)):
        if any(mask[1:]) or not needed[row]:
            continue
        said = ", ".join(message["role"] for message in chat) or "no message"
        cut = "" if max_length is None else f", cut to max_length={max_length}"
        raise ValueError(
            f"row {row} ({said}; {len(mask)} tokens{cut}) has no token of {', '.join(roles)} that can be scored; "
            "leave it out, or pass empty='zero'"
        )


_IDENTITIES: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()


def tokenizer_identity(tokenizer: Any) -> str:
    """A digest that is equal for tokenizers that give equal tokens for equal texts, whatever their templates.

    Args:
        tokenizer: of `transformers`.
    """
    known = _IDENTITIES.get(tokenizer)
    size = len(tokenizer)
    if known is not None and known[0] == size:
        return known[1]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        state: Any = (type(tokenizer).__name__, sorted(tokenizer.get_vocab().items()))
    else:
        state = json.loads(backend.to_str()) | {
            "padding": None,
            "truncation": None,
        }  # calls leave theirs here
    text = json.dumps([state, tokenizer.special_tokens_map], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()
    _IDENTITIES[tokenizer] = (size, digest)
    return digest
