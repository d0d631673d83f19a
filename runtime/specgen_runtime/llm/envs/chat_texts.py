"""Conversations as texts and back, for models that read and write texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specgen_runtime.llm.conversations.answers import around_answers
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.messages import Chat, Message
from specgen_runtime.llm.conversations.templates import render

__all__ = ["ChatTexts"]


class ChatTexts:
    """Renders conversations, and reads answers out of texts.

    Args:
        tokenizer: whose template it is, and whose special tokens it names.
        options: `chat_template` or `chat_template_name` instead of the tokenizer's, and variables of the template.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any] | None = None) -> None:
        self.variables = dict(options or {})
        named = (self.variables.pop(name, None) for name in ("chat_template", "chat_template_name"))
        self.template = template_of(tokenizer, *named)
        self.tokenizer = tokenizer

    def prompt(self, chat: Chat) -> str:
        """What a model is given to answer a conversation."""
        return render(self.template, chat, self.tokenizer, add_generation_prompt=True, **self.variables)

    def answer(self, text: str, role: str) -> Message:
        """The message in what a model has said: without what the template itself puts around answers.

        Args:
            text: what it has said.
            role: of the message.

        Returns:
            The message; `is_complete` is False if the template ends turns and this one has no end.
        """
        lead, tail = around_answers(self.template, self.tokenizer)
        said, end = text.removeprefix(lead), tail.strip()
        content, closed, _ = said.partition(end) if end else (said.removesuffix(tail), "-", "")
        message: Message = {"role": role, "content": content}
        return message if closed else {**message, "is_complete": False}
