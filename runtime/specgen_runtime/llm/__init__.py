"""Language models: conversations, chat templates, and the log-probabilities and KL penalties of what models say."""

from __future__ import annotations

from specgen_runtime.llm.advantage import (
    MCAdvantage,
    conversation_advantage,
    group_advantage,
    groups_of_workers,
)
from specgen_runtime.llm.candidates import MCAdvantageSelector
from specgen_runtime.llm.conversations.containers import ChatHistory, LogProbs, Masks, Text, Tokens
from specgen_runtime.llm.conversations.families import add_chat_template
from specgen_runtime.llm.conversations.history import History
from specgen_runtime.llm.conversations.incremental_tokenizer import IncrementalTokenizer
from specgen_runtime.llm.conversations.messages import Message, as_rows, chats_of
from specgen_runtime.llm.conversations.rendering import Rendered, render_batch
from specgen_runtime.llm.envs.chat_env import ChatEnv
from specgen_runtime.llm.envs.policy_version import PolicyVersion
from specgen_runtime.llm.envs.prompts import Prompts
from specgen_runtime.llm.envs.rewards import Reward, RewardModel, Scores
from specgen_runtime.llm.envs.tools import (
    CallTools,
    ExecuteToolsInOrder,
    JSONCallParser,
    ToolCall,
    ToolParser,
    ToolRegistry,
    ToolService,
    XMLBlockParser,
)
from specgen_runtime.llm.kl.kl_penalty import KLComputation
from specgen_runtime.llm.kl.kl_reward import KLRewardTransform, RayKLRewardTransform
from specgen_runtime.llm.kl.log_probs import RetrieveLogProb
from specgen_runtime.llm.kl.policy_and_reference import CollectorWithPolicy
from specgen_runtime.llm.kl.retrieve_kl import RayRetrieveKL, RetrieveKL
from specgen_runtime.llm.kl_estimators import k3_kl_token_estimate, kl_estimate
from specgen_runtime.llm.models.distribution import TokenDistribution
from specgen_runtime.llm.models.loading import load_model, load_template, load_tokenizer
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.llm.ray_advantage import RayMCAdvantage
from specgen_runtime.llm.recorded import recorded_conversations
from specgen_runtime.llm.top_rewards import TopKRewardSelector

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
    "PolicyVersion",
    "Prompts",
    "RayKLRewardTransform",
    "RayMCAdvantage",
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
    "TopKRewardSelector",
    "TransformersWrapper",
    "XMLBlockParser",
    "add_chat_template",
    "as_rows",
    "chats_of",
    "conversation_advantage",
    "group_advantage",
    "groups_of_workers",
    "k3_kl_token_estimate",
    "kl_estimate",
    "load_model",
    "load_template",
    "load_tokenizer",
    "recorded_conversations",
    "render_batch",
]
