"""Generated environments: the base class, and what makes their rollouts fast."""

from specgen_runtime.envs.generated.env import EnvSpecs, GeneratedEnv
from specgen_runtime.envs.generated.lifting import counts_before, sums_before

__all__ = ["EnvSpecs", "GeneratedEnv", "counts_before", "sums_before"]
