"""Gymnasium environments: by name, around an instance, and generated ones whose specs are known ahead."""

from specgen_runtime.envs.gym.backend import gym_backend, set_gym_backend
from specgen_runtime.envs.gym.dynamics import GymDynamics
from specgen_runtime.envs.gym.env import GymEnv
from specgen_runtime.envs.gym.generated import GeneratedGymEnv
from specgen_runtime.envs.gym.gym_like import GymLikeEnv
from specgen_runtime.envs.gym.info import BaseInfoDictReader, default_info_dict_reader, terminal_obs_reader
from specgen_runtime.envs.gym.space_mismatch import GymSpaceMismatch
from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.specs.gymnasium import register_gym_spec_conversion

__all__ = [
    "BaseInfoDictReader",
    "GeneratedGymEnv",
    "GymDynamics",
    "GymEnv",
    "GymLikeEnv",
    "GymSpaceMismatch",
    "GymWrapper",
    "default_info_dict_reader",
    "gym_backend",
    "register_gym_spec_conversion",
    "set_gym_backend",
    "terminal_obs_reader",
]
