"""Answers as messages: what a model said, without what the chat template itself puts around contents."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from torch import Tensor

from specgen_runtime.llm.families import template_of
from specgen_runtime.llm.messages import MARKS, Message
from specgen_runtime.llm.templates import render

__all__ = ["message_of"]

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
    content = content.removeprefix(_lead(template_of(tokenizer, template, name), _Same(tokenizer)))
    for mark in MARKS:  # which no message may contain
        content = content.replace(mark, "\ufffd")
    message: Message = {"role": "assistant", "content": content}
    return message if is_complete else {**message, "is_complete": False}


class _Same:
    """A tokenizer as an argument of a function whose results are kept: equal to itself alone."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tokenizer is self.tokenizer

    def __hash__(self) -> int:
        return id(self.tokenizer)


@lru_cache(maxsize=32)
def _lead(template: str, same: _Same) -> str:
    """What a template writes between a generation prompt and an answer's content, such as one space.

    If it stayed in the content it would be there twice when the conversation is rendered again.
    """
    asked: list[Message] = [{"role": "user", "content": "question"}]
    answer: Message = {"role": "assistant", "content": PROBE}
    before = render(template, asked, same.tokenizer, add_generation_prompt=True)
    whole = render(template, [*asked, answer], same.tokenizer)
    said = whole.removeprefix(before)
    if said == whole or PROBE not in said:
        return ""
    return said[: said.index(PROBE)]
