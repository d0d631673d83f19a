"""Several environments as one: in this process, in processes of their own, or on several machines."""

from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.envs.batched.parallel import ParallelEnv
from specgen_runtime.envs.batched.ray import RayEnv
from specgen_runtime.envs.batched.serial import SerialEnv

__all__ = ["BatchedEnv", "ParallelEnv", "RayEnv", "SerialEnv"]
