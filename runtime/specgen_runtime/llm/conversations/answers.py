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

__all__ = ["around_answers", "continued", "message_of"]

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


def around_answers(template: str, tokenizer: Any) -> tuple[str, str]:
    """Return what a template writes around an answer's content, found with a probe.

    The first text stands between a generation prompt and the content, such as one space. If it stayed in the content it
    would be there twice when the conversation is rendered again. The second one stands behind: the end of the turn.
    """
    return _around(template, _Same(tokenizer))


class _Same:
    """A tokenizer as an argument of a function whose results are kept: equal to itself alone."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tokenizer is self.tokenizer

    def __hash__(self) -> int:
        return id(self.tokenizer)


@lru_cache(maxsize=32)
def _around(template: str, same: _Same) -> tuple[str, str]:
    asked: list[Message] = [{"role": "user", "content": "question"}]
    answer: Message = {"role": "assistant", "content": PROBE}
    before = render(template, asked, same.tokenizer, add_generation_prompt=True)
    whole = render(template, [*asked, answer], same.tokenizer)
    lead, found, tail = whole.removeprefix(before).partition(PROBE)
    return (lead if found and whole.startswith(before) else "", tail)
