"""What generated code stands on: specs, environments, transforms, losses and modules on torch and tensordict.

What users type most is here; each folder has the rest.
"""

from typing import TYPE_CHECKING

from specgen_runtime.envs import (
    EnvBase,
    ExplorationType,
    GymEnv,
    GymWrapper,
    ParallelEnv,
    RayEnv,
    SerialEnv,
    check_env_specs,
    default_info_dict_reader,
    set_exploration_type,
    step_mdp,
)
from specgen_runtime.modules import EGreedyModule, QValueActor, QValueModule
from specgen_runtime.objectives import HardUpdate, LossModule, SoftUpdate, ValueEstimators
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
    make_composite_from_td,
)
from specgen_runtime.transforms import Compose, Transform, TransformedEnv

__all__ = [
    "Binary",
    "Bounded",
    "Categorical",
    "Choice",
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
    "MultiOneHot",
    "NonTensor",
    "OneHot",
    "ParallelEnv",
    "QValueActor",
    "QValueModule",
    "RayEnv",
    "SerialEnv",
    "SoftUpdate",
    "Stacked",
    "StackedComposite",
    "TensorSpec",
    "Transform",
    "TransformedEnv",
    "Unbounded",
    "ValueEstimators",
    "check_env_specs",
    "default_info_dict_reader",
    "make_composite_from_td",
    "set_exploration_type",
    "step_mdp",
]

if not TYPE_CHECKING:  # a type checker would take every misspelt name for one of these

    def __getattr__(name):
        """Names that specs had before; with a DeprecationWarning."""
        from specgen_runtime.specs.legacy import older_name

        return older_name(__name__, name)
