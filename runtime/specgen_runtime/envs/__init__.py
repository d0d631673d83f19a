"""Environments: the base class, generated ones (also over Gymnasium or a user's class), and helpers around them."""

from specgen_runtime.envs.agents import MarlGroupMapType, check_marl_grouping
from specgen_runtime.envs.auto_reset import AutoResetEnv
from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched import BatchedEnv, ParallelEnv, RayEnv, SerialEnv
from specgen_runtime.envs.check_specs import check_env_specs
from specgen_runtime.envs.done import terminated_or_truncated
from specgen_runtime.envs.env_state import env_state, load_env_state
from specgen_runtime.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from specgen_runtime.envs.finite import NotFiniteError
from specgen_runtime.envs.generated import EnvSpecs, GeneratedEnv, counts_before, sums_before
from specgen_runtime.envs.generated.draws import Draws
from specgen_runtime.envs.generated.dynamics import SimulatorDynamics, VectorDynamics
from specgen_runtime.envs.generated.python import GeneratedPythonEnv
from specgen_runtime.envs.gym import (
    BaseInfoDictReader,
    GeneratedGymEnv,
    GymDynamics,
    GymEnv,
    GymLikeEnv,
    GymSpaceMismatch,
    GymWrapper,
    default_info_dict_reader,
    gym_backend,
    register_gym_spec_conversion,
    set_gym_backend,
    terminal_obs_reader,
)
from specgen_runtime.envs.mdp import step_mdp
from specgen_runtime.specs import make_composite_from_td

__all__ = [
    "AutoResetEnv",
    "BaseInfoDictReader",
    "BatchedEnv",
    "Draws",
    "EnvBase",
    "EnvSpecs",
    "ExplorationType",
    "GeneratedEnv",
    "GeneratedGymEnv",
    "GeneratedPythonEnv",
    "GymDynamics",
    "GymEnv",
    "GymLikeEnv",
    "GymSpaceMismatch",
    "GymWrapper",
    "MarlGroupMapType",
    "NotFiniteError",
    "ParallelEnv",
    "RayEnv",
    "SerialEnv",
    "SimulatorDynamics",
    "VectorDynamics",
    "check_env_specs",
    "check_marl_grouping",
    "counts_before",
    "default_info_dict_reader",
    "env_state",
    "exploration_type",
    "gym_backend",
    "load_env_state",
    "make_composite_from_td",
    "register_gym_spec_conversion",
    "set_exploration_type",
    "set_gym_backend",
    "step_mdp",
    "sums_before",
    "terminal_obs_reader",
    "terminated_or_truncated",
]
