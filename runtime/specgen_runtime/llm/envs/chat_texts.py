"""Conversations as texts and back, for models that read and write texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.llm.conversations.answers import around_answers
from specgen_runtime.llm.conversations.containers import Text
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.messages import Chat, Message, as_rows
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.specs import Composite, NonTensor
from specgen_runtime.specs.non_tensors.data import elements

__all__ = ["ChatTexts"]


class ChatTexts:
    """Renders conversations, and reads answers out of texts: what an environment observes beside conversations.

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

    def observed_specs(self, size: torch.Size, device: torch.device | None) -> dict[str, Any]:
        """``("text", "prompt")``: a string for each row."""
        return {"text": self._spec("prompt", size, device)}

    def action_spec(self, size: torch.Size, device: torch.device | None) -> Composite:
        """``("text", "full")``: a string for each row."""
        return Composite({"text": self._spec("full", size, device)}, shape=size, device=device)

    @staticmethod
    def _spec(part: str, size: torch.Size, device: torch.device | None) -> Composite:
        text = NonTensor(size, device=device, example_data="", batched=True)
        return Composite({part: text}, shape=size, device=device, data_cls=Text)

    def observed(
        self, chats: Sequence[Chat], size: torch.Size, acted: TensorDictBase | None
    ) -> dict[str, Any]:
        """What is observed of conversations to be answered: the texts of prompts, on the CPU.

        Args:
            chats: of each row.
            size: of the batch.
            acted: what the step was taken with that the conversations go on from; None after a reset.
        """
        texts = as_rows(list(map(self.prompt, chats)), size)
        return {"text": Text._from_tensordict(TensorDict({"prompt": texts}, size))}

    def answered(
        self, tensordict: TensorDictBase, prompts: Sequence[Chat], rows: Sequence[int], role: str
    ) -> list[Chat]:
        """The conversations with the answers in texts.

        Args:
            tensordict: with the action.
            prompts: the conversations before, of each row.
            rows: those that step; the others are as they were.
            role: of the answers.

        Raises:
            RuntimeError: an action does not begin with its prompt.
        """
        asked, said = (elements(tensordict.get(("text", name))) for name in ("prompt", "full"))
        full = list(prompts)
        for index in rows:
            if said[index] and not said[index].startswith(asked[index]):
                raise RuntimeError(
                    f"('text', 'full') of row {index} does not begin with ('text', 'prompt'):"
                    f" {said[index]!r:.100}, {asked[index]!r:.100}"
                )
            full[index] = [*full[index], self.answer(said[index].removeprefix(asked[index]), role)]
        return full
