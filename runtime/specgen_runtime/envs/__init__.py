"""Environments: the base class, generated and Gymnasium-backed ones, and the helpers around them."""

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.checks import check_env_specs
from specgen_runtime.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from specgen_runtime.envs.generated import EnvSpecs, GeneratedEnv, counts_before, sums_before
from specgen_runtime.envs.gym import GeneratedGymEnv, GymEnv, GymSpaceMismatch, GymWrapper
from specgen_runtime.envs.mdp import step_mdp

__all__ = [
    "EnvBase",
    "EnvSpecs",
    "ExplorationType",
    "GeneratedEnv",
    "GeneratedGymEnv",
    "GymEnv",
    "GymSpaceMismatch",
    "GymWrapper",
    "check_env_specs",
    "counts_before",
    "exploration_type",
    "set_exploration_type",
    "step_mdp",
    "sums_before",
]
