"""What generated code stands on: specs, environments, transforms, losses and modules on torch and tensordict.

What users type most is here; each folder has the rest.
"""

from specgen_runtime.envs import (
    EnvBase,
    ExplorationType,
    GymEnv,
    GymWrapper,
    check_env_specs,
    set_exploration_type,
    step_mdp,
)
from specgen_runtime.modules import EGreedyModule, QValueActor, QValueModule
from specgen_runtime.objectives import HardUpdate, LossModule, SoftUpdate, ValueEstimators
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    OneHot,
    TensorSpec,
    Unbounded,
)
from specgen_runtime.transforms import Compose, Transform, TransformedEnv

__all__ = [
    "Binary",
    "Bounded",
    "Categorical",
    "Compose",
    "Composite",
    "EGreedyModule",
    "EnvBase",
    "ExplorationType",
    "GymEnv",
    "GymWrapper",
    "HardUpdate",
    "LossModule",
    "MultiCategorical",
    "OneHot",
    "QValueActor",
    "QValueModule",
    "SoftUpdate",
    "TensorSpec",
    "Transform",
    "TransformedEnv",
    "Unbounded",
    "ValueEstimators",
    "check_env_specs",
    "set_exploration_type",
    "step_mdp",
]
