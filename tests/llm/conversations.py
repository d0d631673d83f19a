"""Conversations, wrapped models and a plain computation, for tests of KL penalties."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from specgen_runtime.llm import ChatHistory, History, TransformersWrapper
from specgen_runtime.llm.conversations.messages import Chat
from tensordict import TensorDict
from torch import Tensor, nn

from tests.llm.models import tiny_model, tiny_tokenizer

CHATS: list[Chat] = [
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "I'm well"}],
    [{"role": "user", "content": "What's the weather?"}, {"role": "assistant", "content": "42"}],
]


@cache
def tokenizer() -> Any:
    return tiny_tokenizer()


@cache
def model(seed: int, family: str = "llama") -> nn.Module:
    return tiny_model(family, tokenizer(), seed=seed)


def wrapped(seed: int, **keywords: Any) -> TransformersWrapper:
    """A model that scores, padded; those of different seeds have keys of their own."""
    whole: dict[str, Any] = {
        "tokenizer": tokenizer(),
        "generate": False,
        "return_log_probs": True,
        "pad_output": True,
        "log_probs_key": f"log_probs_{seed}",
        **keywords,
    }
    return TransformersWrapper(model(seed), **whole)


def pair(**keywords: Any) -> dict[str, Any]:
    """A policy and a reference, as keywords."""
    return {"gen_model": wrapped(0, **keywords), "ref_model": wrapped(1, **keywords)}


def conversations(reward: Tensor | None = None, after: bool = True) -> TensorDict:
    """Two conversations; the reward is under ``"next"``."""
    size = (len(CHATS),)
    history = ChatHistory(full=History.from_chats(CHATS))
    data = TensorDict(history=history, batch_size=size)
    place = data
    if after:
        data["next"] = place = TensorDict(history=history, batch_size=size)
        place = data["next"]
    if reward is not None:
        place["reward"] = reward
    return data


def plain(seed: int, masked: bool = True) -> list[Tensor]:
    """The log-probabilities of each row's tokens, by the model alone and a log-softmax; 0 where none is asked for."""
    rows = []
    for chat in CHATS:
        encoded = tokenizer().apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
        ids, mask = torch.tensor([encoded["input_ids"]]), torch.tensor(encoded["assistant_masks"]).bool()
        with torch.no_grad():
            logits = model(seed)(input_ids=ids).logits
        found = logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[:, 0]
        row = torch.cat([torch.zeros(1), found])
        rows.append(row.where(mask, 0.0) if masked else row)
    return rows


def left(rows: list[Tensor], width: int | None = None) -> Tensor:
    """The rows padded with zeros on the left."""
    width = width or max(map(len, rows))
    return torch.stack([torch.cat([torch.zeros(width - len(row)), row]) for row in rows])
