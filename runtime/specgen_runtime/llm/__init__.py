"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.advantage import MCAdvantage, group_advantage
from specgen_runtime.llm.candidates import MCAdvantageSelector
from specgen_runtime.llm.chat_env import ChatEnv
from specgen_runtime.llm.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from specgen_runtime.llm.distribution import TokenDistribution
from specgen_runtime.llm.families import add_chat_template
from specgen_runtime.llm.history import History
from specgen_runtime.llm.incremental_tokenizer import IncrementalTokenizer
from specgen_runtime.llm.kl import RayRetrieveKL, RetrieveKL
from specgen_runtime.llm.kl_estimators import kl_estimate
from specgen_runtime.llm.kl_penalty import KLComputation
from specgen_runtime.llm.kl_reward import KLRewardTransform, RayKLRewardTransform
from specgen_runtime.llm.loading import load_model, load_template, load_tokenizer
from specgen_runtime.llm.log_probs import RetrieveLogProb
from specgen_runtime.llm.messages import Message, as_rows, chats_of
from specgen_runtime.llm.policy_and_reference import CollectorWithPolicy
from specgen_runtime.llm.prompts import Prompts
from specgen_runtime.llm.rendering import Rendered, render_batch
from specgen_runtime.llm.rewards import Reward, RewardModel, Scores
from specgen_runtime.llm.tools import (
    CallTools,
    ExecuteToolsInOrder,
    JSONCallParser,
    ToolCall,
    ToolParser,
    ToolRegistry,
    ToolService,
    XMLBlockParser,
)
from specgen_runtime.llm.wrapper import TransformersWrapper

__all__ = [
    "CallTools",
    "ChatEnv",
    "ChatHistory",
    "CollectorWithPolicy",
    "ExecuteToolsInOrder",
    "History",
    "IncrementalTokenizer",
    "JSONCallParser",
    "KLComputation",
    "KLRewardTransform",
    "LogProbs",
    "MCAdvantage",
    "MCAdvantageSelector",
    "Masks",
    "Message",
    "Prompts",
    "RayKLRewardTransform",
    "RayRetrieveKL",
    "Rendered",
    "RetrieveKL",
    "RetrieveLogProb",
    "Reward",
    "RewardModel",
    "Scores",
    "Text",
    "TokenDistribution",
    "Tokens",
    "ToolCall",
    "ToolParser",
    "ToolRegistry",
    "ToolService",
    "TransformersWrapper",
    "XMLBlockParser",
    "add_chat_template",
    "as_rows",
    "chats_of",
    "group_advantage",
    "kl_estimate",
    "load_model",
    "load_template",
    "load_tokenizer",
    "render_batch",
]
