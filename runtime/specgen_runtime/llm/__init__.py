"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.advantage import MCAdvantage, group_advantage
from specgen_runtime.llm.candidates import MCAdvantageSelector
from specgen_runtime.llm.chat_env import ChatEnv
from specgen_runtime.llm.messages import Message, as_rows, chats_of
from specgen_runtime.llm.prompts import Prompts
from specgen_runtime.llm.rewards import Reward, Scores

__all__ = [
    "ChatEnv",
    "MCAdvantage",
    "MCAdvantageSelector",
    "Message",
    "Prompts",
    "Reward",
    "Scores",
    "as_rows",
    "chats_of",
    "group_advantage",
]
