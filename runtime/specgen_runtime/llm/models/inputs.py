"""What wrappers of language models read: conversations, texts or tokens, as rows of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.llm.conversations.answers import continued
from specgen_runtime.llm.conversations.entries import Sequences, chats_at, mask_at, texts_at, tokens_at
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.rendering import kept_tokens, render_batch
from specgen_runtime.llm.conversations.templates import variables_of
from specgen_runtime.llm.models.layout import InputMode, Layout, within
from specgen_runtime.ragged import Ragged
from specgen_runtime.typing import NestedKey

__all__ = ["SAID", "Inputs", "wrapper_keywords"]

SAID = ("chat_template", "chat_template_name", "padding_side", "max_length", "pad_to")
"""Keywords of wrappers that those of tokenizers may say."""

_ALWAYS = {
    "tokenize": True,
    "return_assistant_tokens_mask": True,
    "return_dict": True,
    "return_tensors": "pt",
}
"""Keywords of tokenizers that are always so here."""

_RENDERING = frozenset({"continue_final_message", "empty", "roles", "truncation_side", "variables"})
"""Keywords of `render_batch` that are not a wrapper's own; what else conversations are rendered with are variables."""


def wrapper_keywords(tokenizer_kwargs: Mapping[str, Any] | None, *, generate: bool) -> dict[str, Any]:
    """What the keywords of a tokenizer say in those of a wrapper, `tokenizer_kwargs` with the others among them.

    Args:
        tokenizer_kwargs: as tokenizers and their chat templates take them.
        generate: whether prompts are read.

    Raises:
        ValueError: one says something else than what is always so.
    """
    rest = dict(tokenizer_kwargs or {})
    for name, value in {**_ALWAYS, "add_generation_prompt": generate}.items():
        if rest.pop(name, value) != value:
            assert tokenizer_kwargs is not None
            why = (
                ""
                if name != "add_generation_prompt"
                else f", where {'prompts' if generate else 'whole conversations'} are read"
            )
            raise ValueError(
                f"tokenizer_kwargs: {name} is {value!r} here{why}, got {tokenizer_kwargs[name]!r}"
            )
    own = {name: rest.pop(name, None) for name in SAID if name != "pad_to"}
    if rest.pop("padding", None) == "max_length":  # otherwise as pad_output says
        own["pad_to"] = own["max_length"]
    if rest.pop("truncation", True) in (False, "do_not_truncate"):
        own["max_length"] = None
    return {**{name: value for name, value in own.items() if value is not None}, "tokenizer_kwargs": rest}


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
        options: more keywords of `render_batch` and variables of the template, or keywords of the tokenizer for texts.
        max_length: longer conversations and texts are cut.
        prefer_tokens: whether tokens that are in the data stay.

    Raises:
        ValueError: `max_length` is below 1, or the template has no such variable.
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
        if self.mode == "history" and (given := self.options.keys() - _RENDERING):
            known = variables_of(template_of(self.tokenizer, self.chat_template, self.chat_template_name))
            for name in sorted(given - known):
                close = get_close_matches(name, [*known, *_RENDERING, "max_length", "padding_side"], 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"tokenizer_kwargs: the chat template reads no {name!r}{hint}")

    @property
    def optional_keys(self) -> list[NestedKey]:
        """The keys of what is read where it is there."""
        masks = [self.keys.attention_mask, self.keys.assistant_mask]
        prompt, full = (within(self.keys.tokens, part) for part in ("prompt", "full"))
        if self.mode == "tokens":
            return [self.attention_mask_key, *([full, masks[0]] if self.generate else [*masks, prompt])]
        if self.mode == "text" or self.prefer_tokens is False:
            return []
        if self.generate:
            return [prompt, self.attention_mask_key, full, masks[0]]
        return [full, *masks]

    @property
    def _cut(self) -> str | None:
        """Where longer rows are cut: prompts lose their beginning, since an answer follows their end."""
        return "left" if self.generate else None

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
            options = {"add_special_tokens": False, **self.options}
            keep = kept_tokens(self.tokenizer, self.max_length, options.pop("truncation_side", self._cut))
            ids = self.tokenizer(text, **options)["input_ids"]
            rows = [torch.tensor(row, dtype=torch.int64)[keep] for row in ids]
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
        keep = kept_tokens(self.tokenizer, self.max_length, self.options.get("truncation_side", self._cut))
        for part in ("prompt", "full") if self.prefer_tokens is not False else ():  # the latter goes further
            known = self._tokens(data, within(self.keys.tokens, part))
            if known is not None:
                rows = continued(rendered.text, ids.rows(), known.rows(), self.tokenizer)
                ids = Ragged.of([row[keep] for row in rows])
        return self.keys.sequences(ids, None, rendered.text)

    def _rendered(self, data: TensorDictBase) -> Any:
        options = {name: value for name, value in self.options.items() if name in _RENDERING}
        variables = {name: value for name, value in self.options.items() if name not in _RENDERING}
        options["variables"] = {**(options.get("variables") or {}), **variables}
        return render_batch(
            chats_at(data, self.input_key),
            self.tokenizer,
            chat_template=self.chat_template,
            chat_template_name=self.chat_template_name,
            add_generation_prompt=self.generate,
            max_length=self.max_length,
            assistant_mask=not self.generate,
            **{"empty": "zero", "truncation_side": self._cut, **options},
        )

    def _tokens(self, data: TensorDictBase, key: NestedKey) -> Sequences | None:
        if key == within(self.keys.tokens, "prompt"):
            masks = [self.attention_mask_key]
            if self.mode == "tokens" and within(self.keys.tokens, "full") not in data.keys(True):
                masks.append(self.keys.attention_mask)  # otherwise that of the whole sequences
            return tokens_at(data, key, masks, self.keys.side, self.keys.width)
        masks = [self.keys.attention_mask, self.attention_mask_key]
        found = tokens_at(data, key, masks, self.keys.side, self.keys.width)
        if found is None:
            return None
        return found._replace(assistant=mask_at(data, self.keys.assistant_mask, found))
