"""The declarations of the language as pydantic models: what a schema file or a Python program may say."""

from specgen.schema.chain import Chain
from specgen.schema.chat import Chat, Reward
from specgen.schema.env import Env, Function, Gymnasium, Python
from specgen.schema.fields import Const, Declaration, Param, Spec
from specgen.schema.function import Arg, SharedFunction
from specgen.schema.language_model import CausalLM, Generate, LanguageModel
from specgen.schema.loss import Loss
from specgen.schema.module import Module
from specgen.schema.transform import Transform

__all__ = [
    "Arg",
    "CausalLM",
    "Chain",
    "Chat",
    "Const",
    "Declaration",
    "Env",
    "Function",
    "Generate",
    "Gymnasium",
    "LanguageModel",
    "Loss",
    "Module",
    "Param",
    "Python",
    "Reward",
    "SharedFunction",
    "Spec",
    "Transform",
]
