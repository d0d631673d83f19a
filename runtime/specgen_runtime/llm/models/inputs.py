"""What wrappers of language models read: conversations, texts or tokens, as rows of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.llm.conversations.answers import continued
from specgen_runtime.llm.conversations.entries import Sequences, chats_at, mask_at, texts_at, tokens_at
from specgen_runtime.llm.conversations.rendering import render_batch
from specgen_runtime.llm.models.layout import InputMode, Layout, within
from specgen_runtime.ragged import Ragged
from specgen_runtime.typing import NestedKey

__all__ = ["Inputs"]


@dataclass(frozen=True)
class Inputs:
    """How a wrapper reads its data; its arguments are those of `TransformersWrapper`.

    Args:
        mode: what is read.
        generate: whether prompts are, and not whole sequences.
        input_key: where.
        attention_mask_key: where else the mask of tokens may be.
        keys: of all entries, and the padding.
        tokenizer: of `transformers`; None for tokens.
        chat_template: for conversations.
        chat_template_name: for conversations.
        options: more keywords of `render_batch`, or of the tokenizer for texts.
        max_length: longer sequences are cut.
        prefer_tokens: whether tokens that are in the data stay.

    Raises:
        ValueError: `max_length` is below 1.
    """

    mode: InputMode
    generate: bool
    input_key: NestedKey
    attention_mask_key: NestedKey
    keys: Layout
    tokenizer: Any
    chat_template: str | None
    chat_template_name: str | None
    options: Mapping[str, Any]
    max_length: int | None
    prefer_tokens: bool | None

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length is at least 1, got {self.max_length}")

    @property
    def optional_keys(self) -> list[NestedKey]:
        """The keys of what is read where it is there."""
        masks = [self.keys.attention_mask, self.keys.assistant_mask]
        prompt, full = (within(self.keys.tokens, part) for part in ("prompt", "full"))
        if self.mode == "tokens":
            return [self.attention_mask_key, *([] if self.generate else [*masks, prompt])]
        if self.mode == "text" or self.prefer_tokens is False:
            return []
        if self.generate:
            return [prompt, self.attention_mask_key, full, masks[0]]
        return [full, *masks]

    def sequences(self, data: TensorDictBase) -> Sequences:
        """The tokens of what is read, with the assistant's mask where it is known.

        Raises:
            KeyError: what is read is not there.
            ValueError: a sequence is longer than the width, or a template refuses a conversation.
        """
        if self.mode == "tokens":
            found = self._tokens(data, self.input_key)
            if found is None:
                raise KeyError(f"a language model reads {self.input_key!r}, which is not in the tensordict")
            return found
        if self.mode == "text":
            text = texts_at(data, self.input_key)
            ids = self.tokenizer(text, **{"add_special_tokens": False, **self.options})["input_ids"]
            rows = [torch.as_tensor(row, dtype=torch.int64)[: self.max_length] for row in ids]
            return self.keys.sequences(Ragged.of(rows, torch.int64), None, text)
        return self._prompts(data) if self.generate else self._conversations(data)

    def _conversations(self, data: TensorDictBase) -> Sequences:
        if self.prefer_tokens is not False:
            known = self._tokens(data, key := within(self.keys.tokens, "full"))
            if known is not None and known.assistant is not None:
                return known
            if self.prefer_tokens:
                raise KeyError(
                    f"prefer_tokens=True: {key!r}, or the assistant's mask, is not in the tensordict"
                )
        rendered = self._rendered(data)
        return self.keys.sequences(rendered.ids, rendered.assistant, rendered.text)

    def _prompts(self, data: TensorDictBase) -> Sequences:
        rendered = self._rendered(data)
        ids = rendered.ids
        for part in ("prompt", "full") if self.prefer_tokens is not False else ():  # the latter goes further
            known = self._tokens(data, within(self.keys.tokens, part))
            if known is not None:
                ids = Ragged.of(continued(rendered.text, ids.rows(), known.rows(), self.tokenizer))
        return self.keys.sequences(ids, None, rendered.text)

    def _rendered(self, data: TensorDictBase) -> Any:
        return render_batch(
            chats_at(data, self.input_key),
            self.tokenizer,
            chat_template=self.chat_template,
            chat_template_name=self.chat_template_name,
            add_generation_prompt=self.generate,
            max_length=self.max_length,
            **{"assistant_mask": not self.generate, "empty": "zero", **self.options},
        )

    def _tokens(self, data: TensorDictBase, key: NestedKey) -> Sequences | None:
        if key == within(self.keys.tokens, "prompt"):  # the masks are of whole sequences
            return tokens_at(data, key, [self.attention_mask_key], self.keys.side, self.keys.width)
        masks = [self.keys.attention_mask, self.attention_mask_key]
        found = tokens_at(data, key, masks, self.keys.side, self.keys.width)
        if found is None:
            return None
        return found._replace(assistant=mask_at(data, self.keys.assistant_mask, found))
