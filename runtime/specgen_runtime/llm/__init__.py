"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.chat_env import ChatEnv
from specgen_runtime.llm.messages import Message, as_rows, chats_of
from specgen_runtime.llm.prompts import Prompts
from specgen_runtime.llm.rewards import Reward, Scores

__all__ = [
    "ChatEnv",
    "Message",
    "Prompts",
    "Reward",
    "Scores",
    "as_rows",
    "chats_of",
]
