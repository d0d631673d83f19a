"""`IncrementalTokenizer`: the tokens of conversations in environments, of which those that were sampled stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.answers import padded_prompts
from specgen_runtime.llm.conversations.entries import chats_at, tokens_at
from specgen_runtime.llm.conversations.families import template_of
from specgen_runtime.llm.conversations.templates import render
from specgen_runtime.specs import Binary, Bounded, Composite
from specgen_runtime.transforms import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key
from specgen_runtime.typing import NestedKey

__all__ = ["IncrementalTokenizer"]


class IncrementalTokenizer(Transform):
    """Writes the tokens of prompts, and takes answers that are tokens.

    At a reset, conversations are rendered and tokenised. At a step, the tokens that the policy was given and those that
    it sampled stay as they are, and only what follows them is tokenised: a text may be cut into other tokens than
    those that were sampled. Where the conversation goes on otherwise (its template rewrites what was said), it is
    tokenised anew.

    Args:
        tokenizer: of `transformers`.
        history_key: of the conversations.
        tokens_key: of the tokens, int64 ``[*batch, width]``, padded on the left. Beside it, under ``"full"``, the
            policy writes prompts with answers.
        chat_template_name: the name of a chat template.
        chat_template: a chat template.
        add_generation_prompt: whether to add what precedes an answer.
        attention_mask_key: of the mask of what is no padding, bool ``[*batch, width]``.
        masks_key: of the container where the policy writes such a mask of prompts with answers.
        pad_to: the width; None for that of the longest row, which partial resets cannot merge.
        variables: further variables of the template.

    Raises:
        ValueError: a conversation is longer than `pad_to`, or the template refuses it.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        history_key: NestedKey = ("history", "prompt"),
        tokens_key: NestedKey = ("tokens", "prompt"),
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        attention_mask_key: NestedKey = "attention_mask",
        masks_key: NestedKey = "masks",
        pad_to: int | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(in_keys=[history_key], out_keys=[tokens_key, attention_mask_key])
        self.tokenizer = tokenizer
        self.history_key, self.tokens_key = normal_key(history_key), normal_key(tokens_key)
        self.chat_template, self.chat_template_name = chat_template, chat_template_name
        self.add_generation_prompt, self.pad_to = add_generation_prompt, pad_to
        self.attention_mask_key = normal_key(attention_mask_key)
        self.variables = dict(variables or {})
        *container, own = as_tuple(self.tokens_key)
        self._full = normal_key((*(container or (own,)), "full"))
        self._full_mask = normal_key((*as_tuple(masks_key), "all_attention_mask"))

    def _tokenized(self, data: TensorDictBase, known: Sequence[Tensor] | None = None) -> TensorDictBase:
        """Write the tokens of the conversations in data, which go on from those that are known."""
        template = template_of(self.tokenizer, self.chat_template, self.chat_template_name)
        options = {**self.variables, "add_generation_prompt": self.add_generation_prompt}
        chats = chats_at(data, self.history_key)
        texts = [render(template, chat, self.tokenizer, **options) for chat in chats]
        ids, mask = padded_prompts(texts, known, self.tokenizer, self.pad_to)
        data.set(self.tokens_key, ids.reshape(*data.batch_size, -1))
        return data.set(self.attention_mask_key, mask.reshape(*data.batch_size, -1))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._tokenized(tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        known = tokens_at(tensordict, self._full, [self._full_mask])
        return self._tokenized(next_tensordict, None if known is None else known.rows())

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs with tokens and mask, ``[*batch, pad_to]``."""
        shape = (*observation_spec.shape, -1 if self.pad_to is None else self.pad_to)
        device = observation_spec.device
        *container, _ = as_tuple(self.tokens_key)
        if container and tuple(container) not in observation_spec.keys(True):
            observation_spec[tuple(container)] = Composite(shape=observation_spec.shape, device=device)
        ids = Bounded(0, len(self.tokenizer) - 1, shape, dtype=torch.int64, device=device)
        observation_spec[self.tokens_key] = ids
        observation_spec[self.attention_mask_key] = Binary(shape=shape, dtype=torch.bool, device=device)
        return observation_spec
