"""Answers as messages, and as the beginning of the next prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.messages import MARKS, Message
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.ragged import Ragged

__all__ = ["around_answers", "continued", "message_of", "padded_prompts"]

PROBE = "content"


def message_of(
    ids: Tensor, is_complete: bool, tokenizer: Any, template: str | None = None, name: str | None = None
) -> Message:
    """Return the message that sampled tokens are.

    Args:
        ids: int64 ``[tokens]``, with the stop token if one was drawn.
        is_complete: whether that is so; if not, the message says so.
        tokenizer: of `transformers`.
        template: a chat template; None for the tokenizer's.
        name: the name of a chat template.
    """
    content: str = tokenizer.decode(ids[:-1] if is_complete else ids)
    lead, _ = around_answers(template_of(tokenizer, template, name), tokenizer)
    content = content.removeprefix(lead)
    for mark in MARKS:  # which no message may contain
        content = content.replace(mark, "\ufffd")
    message: Message = {"role": "assistant", "content": content}
    return message if is_complete else {**message, "is_complete": False}


def continued(
    texts: Sequence[str], ids: Sequence[Tensor], known: Sequence[Tensor], tokenizer: Any
) -> list[Tensor]:
    """Return the tokens of prompts; where one goes on from a sequence whose tokens are known, these stay.

    What was sampled may be cut into other tokens than its text would be.

    Args:
        texts: the prompts, rendered.
        ids: the tokens of these texts, int64 ``[tokens]`` each.
        known: the tokens of each row's sequence before, ``[tokens]`` each. One whose text does not begin the prompt is
            passed over.
        tokenizer: of `transformers`.
    """
    made = []
    for text, new, old in zip(texts, ids, known, strict=True):
        before = tokenizer.decode(old)
        if before and text.startswith(before):
            rest = tokenizer.encode(text[len(before) :], add_special_tokens=False)
            made.append(torch.cat([old, torch.tensor(rest, dtype=old.dtype, device=old.device)]))
        else:
            made.append(new)
    return made


def padded_prompts(
    texts: Sequence[str], known: Sequence[Tensor] | None, tokenizer: Any, width: int | None
) -> tuple[Tensor, Tensor]:
    """Return the tokens of prompts, int64 ``[rows, width]``, padded on the left, and the mask of what is no padding.

    Args:
        texts: the prompts, rendered.
        known: see `continued`; None where they begin.
        tokenizer: of `transformers`.
        width: of the result; None for the longest row's.

    Raises:
        ValueError: a prompt has more tokens.
    """
    ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"] if texts else []
    rows = [torch.as_tensor(row, dtype=torch.int64) for row in ids]
    if known is not None:
        rows = continued(texts, rows, known, tokenizer)
    ragged, pad = Ragged.of(rows, torch.int64), tokenizer.pad_token_id
    return ragged.padded(0 if pad is None else pad, "left", width), ragged.mask("left", width)


@lru_cache(maxsize=32)
def around_answers(template: str, tokenizer: Any) -> tuple[str, str]:
    """Return what a template writes around an answer's content, found with a probe.

    The first text stands between a generation prompt and the content, such as one space. If it stayed in the content it
    would be there twice when the conversation is rendered again. The second one stands behind: the end of the turn.
    """
    asked: list[Message] = [{"role": "user", "content": "question"}]
    answer: Message = {"role": "assistant", "content": PROBE}
    before = render(template, asked, tokenizer, add_generation_prompt=True)
    whole = render(template, [*asked, answer], tokenizer)
    lead, found, tail = whole.removeprefix(before).partition(PROBE)
    return (lead if found and whole.startswith(before) else "", tail)
