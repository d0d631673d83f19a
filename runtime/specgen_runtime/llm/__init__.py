"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from specgen_runtime.llm.distribution import TokenDistribution
from specgen_runtime.llm.families import add_chat_template
from specgen_runtime.llm.history import History
from specgen_runtime.llm.loading import load_model, load_tokenizer
from specgen_runtime.llm.messages import Message, as_rows, chats_of
from specgen_runtime.llm.rendering import Rendered, render_batch
from specgen_runtime.llm.wrapper import TransformersWrapper

__all__ = [
    "ChatHistory",
    "History",
    "LogProbs",
    "Masks",
    "Message",
    "Rendered",
    "Text",
    "TokenDistribution",
    "Tokens",
    "TransformersWrapper",
    "add_chat_template",
    "as_rows",
    "chats_of",
    "load_model",
    "load_tokenizer",
    "render_batch",
]
