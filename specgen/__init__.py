"""specgen: declare, check and generate reinforcement-learning environments, transforms and losses.

The declarations of the language as Python objects, for schemas written in Python::

    from specgen import Env, Module

    schema = Module(envs={"Walk": Env(state={"x": "float32"}, ...)})

They are loaded when first used, so that importing a part of the compiler stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specgen.schema import (
        Arg,
        CausalLM,
        Chain,
        Chat,
        Const,
        Env,
        Function,
        Generate,
        Gymnasium,
        LanguageModel,
        Loss,
        Module,
        Param,
        Python,
        Reward,
        SharedFunction,
        Spec,
        Transform,
    )

__version__ = "0.1.0"

__all__ = [
    "Arg",
    "CausalLM",
    "Chain",
    "Chat",
    "Const",
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


def __getattr__(name: str) -> Any:
    if name in __all__:
        from specgen import schema

        return getattr(schema, name)
    raise AttributeError(f"module 'specgen' has no attribute {name!r}")
