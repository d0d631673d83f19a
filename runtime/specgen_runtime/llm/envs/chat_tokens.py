"""Conversations as tokens and back, for models that read and write tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.answers import around_answers, padded_prompts
from specgen_runtime.llm.conversations.containers import Tokens
from specgen_runtime.llm.conversations.entries import Sequences, tokens_at
from specgen_runtime.llm.conversations.messages import Chat, Message
from specgen_runtime.llm.envs.chat_texts import ChatTexts
from specgen_runtime.llm.models.loading import load_tokenizer
from specgen_runtime.specs import Binary, Bounded, Composite, Unbounded
from specgen_runtime.typing import NestedKey

__all__ = ["ChatTokens", "form_of"]

_PROMPT: NestedKey = ("tokens", "prompt")
_FULL: NestedKey = ("tokens", "full")
_PROMPT_MASK: NestedKey = "attention_mask"
_FULL_MASK: NestedKey = ("masks", "all_attention_mask")


class ChatTokens(ChatTexts):
    """Tokenises conversations, and reads answers out of tokens.

    What was sampled stays over turns as it was sampled. Prompts are padded on the left.

    Args:
        tokenizer: of `transformers`.
        options: `chat_template` or `chat_template_name` instead of the tokenizer's, and variables of the template.
        width: of prompts, and of prompts with answers.
    """

    def __init__(self, tokenizer: Any, options: Mapping[str, Any] | None, width: int) -> None:
        super().__init__(tokenizer, options)
        self.width = width

    def observed_specs(self, size: torch.Size, device: torch.device | None) -> dict[str, Any]:
        """``("tokens", "prompt")``, int64, and ``"attention_mask"``, bool: ``[*batch, width]`` each."""
        shape = (*size, self.width)
        ids = Bounded(0, len(self.tokenizer) - 1, shape, dtype=torch.int64, device=device)
        tokens = Composite({"prompt": ids}, shape=size, device=device, data_cls=Tokens)
        return {"tokens": tokens, "attention_mask": Binary(shape=shape, dtype=torch.bool, device=device)}

    def action_spec(self, size: torch.Size, device: torch.device | None) -> Composite:
        """``("tokens", "full")``, int64 ``[*batch, width]``."""
        ids = Unbounded((*size, self.width), dtype=torch.int64, device=device)
        tokens = Composite({"full": ids}, shape=size, device=device, data_cls=Tokens)
        return Composite({"tokens": tokens}, shape=size, device=device)

    def observed(
        self, chats: Sequence[Chat], size: torch.Size, acted: TensorDictBase | None
    ) -> dict[str, Any]:
        """The tokens of prompts, which go on from those that were sampled, and their mask.

        Raises:
            ValueError: a prompt has more tokens than the width.
        """
        texts = list(map(self.prompt, chats))
        known = None if acted is None else [row.cpu() for row in self._full(acted)]
        ids, mask = padded_prompts(texts, known, self.tokenizer, self.width)
        tokens = TensorDict({"prompt": ids.reshape(*size, -1)}, size)
        return {"tokens": Tokens._from_tensordict(tokens), "attention_mask": mask.reshape(*size, -1)}

    def answered(
        self, tensordict: TensorDictBase, prompts: Sequence[Chat], rows: Sequence[int], role: str
    ) -> list[Chat]:
        """The conversations with the answers in tokens; see `ChatTexts.answered`."""
        asked, said = _read(tensordict, _PROMPT, _PROMPT_MASK).rows(), self._full(tensordict)
        full = list(prompts)
        for index in rows:
            count = len(asked[index])
            if not torch.equal(said[index][:count], asked[index]):
                raise RuntimeError(
                    f"('tokens', 'full') of row {index} does not begin with the {count} tokens of ('tokens', 'prompt'); "
                    "('masks', 'all_attention_mask') says what of it is no padding"
                )
            full[index] = [*full[index], self._message(said[index][count:], role)]
        return full

    def _full(self, data: TensorDictBase) -> list[Tensor]:
        """The tokens of each row's prompt with its answer; what the action spec draws stands for an empty one."""
        found, asked = _read(data, _FULL, _FULL_MASK), _read(data, _PROMPT, _PROMPT_MASK)
        drawn = ((found.ids < 0) | (found.ids >= len(self.tokenizer))).all(-1).tolist()
        rows = zip(found.rows(), asked.rows(), drawn, strict=True)
        return [prompt if nothing else whole for whole, prompt, nothing in rows]

    def _message(self, ids: Tensor, role: str) -> Message:
        """The answer that sampled tokens are: it ends with the end of its turn, or with the tokenizer's end token."""
        ended = bool(len(ids)) and int(ids[-1]) == self.tokenizer.eos_token_id
        text: str = self.tokenizer.decode(ids[:-1] if ended else ids)
        _, tail = around_answers(self.template, self.tokenizer)
        return self.answer(text + tail if ended else text, role)


def _read(data: TensorDictBase, key: NestedKey, mask: NestedKey) -> Sequences:
    found = tokens_at(data, key, [mask])
    if found is None:
        raise KeyError(f"a step reads {key!r}, which is not in the tensordict")
    return found


def form_of(
    mode: str, tokenizer: Any, options: Mapping[str, Any] | None, pad_to: int | None
) -> ChatTexts | None:
    """What conversations are observed as, besides; None for nothing.

    Raises:
        ValueError: there is no such mode, or an argument is missing.
    """
    if isinstance(tokenizer, str):
        tokenizer = load_tokenizer(tokenizer)
    match mode:
        case "history":
            return None
        case "text" if tokenizer is not None or options:
            return ChatTexts(tokenizer, options)
        case "tokens" if tokenizer is not None and pad_to is not None:
            return ChatTokens(tokenizer, options, pad_to)
        case "text":
            raise ValueError("input_mode='text' needs a tokenizer, whose chat template makes the texts")
        case "tokens":
            raise ValueError(
                "input_mode='tokens' needs a tokenizer, and pad_to: the width of all tokens, since rows of two widths "
                "can't be put together where some are reset"
            )
        case _:
            raise ValueError(f"input_mode is 'history', 'text' or 'tokens', got {mode!r}")
