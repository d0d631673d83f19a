"""Gymnasium environments: by name, around an instance, and generated ones whose specs are known ahead."""

from specgen_runtime.envs.gym.generated import GeneratedGymEnv, GymSpaceMismatch
from specgen_runtime.envs.gym.wrapper import GymEnv, GymWrapper

__all__ = ["GeneratedGymEnv", "GymEnv", "GymSpaceMismatch", "GymWrapper"]
