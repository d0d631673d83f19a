"""Generated environments: the base class, and what makes their rollouts fast."""

from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.generated.lifting import counts_before, sums_before
from specgen_runtime.envs.generated.specs import EnvSpecs

__all__ = ["EnvSpecs", "GeneratedEnv", "counts_before", "sums_before"]
