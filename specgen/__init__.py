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
        GSDE,
        SGD,
        Acting,
        ActionDistribution,
        Adam,
        AdamW,
        Arg,
        Bonus,
        CausalLM,
        Chain,
        Chat,
        Checkpoint,
        Const,
        Data,
        Devices,
        Env,
        EpsilonGreedy,
        Estimating,
        EstimatorNumbers,
        Evaluate,
        Explore,
        Function,
        GaussianNoise,
        Generate,
        GroupAdvantage,
        Gymnasium,
        Hard,
        Hindsight,
        Init,
        LanguageModel,
        Loss,
        Mixer,
        Module,
        NetworkBody,
        OnlineAndRecorded,
        OnPolicy,
        OptimizerGroup,
        OrnsteinUhlenbeck,
        Orthogonal,
        Param,
        Pipeline,
        Prioritized,
        Python,
        Recorded,
        Replay,
        Reward,
        RMSprop,
        Sampler,
        Scale,
        SharedFunction,
        Slices,
        Soft,
        Spec,
        Stop,
        Support,
        TargetUpdate,
        Transform,
        Workers,
    )

__version__ = "0.1.0"

__all__ = [
    "GSDE",
    "SGD",
    "Acting",
    "ActionDistribution",
    "Adam",
    "AdamW",
    "Arg",
    "Bonus",
    "CausalLM",
    "Chain",
    "Chat",
    "Checkpoint",
    "Const",
    "Data",
    "Devices",
    "Env",
    "EpsilonGreedy",
    "Estimating",
    "EstimatorNumbers",
    "Evaluate",
    "Explore",
    "Function",
    "GaussianNoise",
    "Generate",
    "GroupAdvantage",
    "Gymnasium",
    "Hard",
    "Hindsight",
    "Init",
    "LanguageModel",
    "Loss",
    "Mixer",
    "Module",
    "NetworkBody",
    "OnPolicy",
    "OnlineAndRecorded",
    "OptimizerGroup",
    "OrnsteinUhlenbeck",
    "Orthogonal",
    "Param",
    "Pipeline",
    "Prioritized",
    "Python",
    "RMSprop",
    "Recorded",
    "Replay",
    "Reward",
    "Sampler",
    "Scale",
    "SharedFunction",
    "Slices",
    "Soft",
    "Spec",
    "Stop",
    "Support",
    "TargetUpdate",
    "Transform",
    "Workers",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from specgen import schema

        return getattr(schema, name)
    raise AttributeError(f"module 'specgen' has no attribute {name!r}")
