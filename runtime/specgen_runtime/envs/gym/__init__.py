"""Gymnasium environments: by name, around an instance, and generated ones whose specs are known ahead."""

from specgen_runtime.envs.gym.env import GymEnv
from specgen_runtime.envs.gym.generated import GeneratedGymEnv, GymSpaceMismatch
from specgen_runtime.envs.gym.info import BaseInfoDictReader, default_info_dict_reader
from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = [
    "BaseInfoDictReader",
    "GeneratedGymEnv",
    "GymEnv",
    "GymSpaceMismatch",
    "GymWrapper",
    "default_info_dict_reader",
]
