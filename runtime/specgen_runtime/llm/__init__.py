"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.messages import Message, as_rows, chats_of

__all__ = [
    "Message",
    "as_rows",
    "chats_of",
]
