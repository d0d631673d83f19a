"""Transforms of environments: they change observations, rewards, done flags, actions and their specs."""

from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import Compose
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.transforms.function import FunctionTransform
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.module import ModuleTransform, RayModuleTransform
from specgen_runtime.transforms.primer import TensorDictPrimer
from specgen_runtime.transforms.skip import ConditionalSkip

__all__ = [
    "Compose",
    "ConditionalSkip",
    "FunctionTransform",
    "GeneratedTransform",
    "ModuleTransform",
    "RayModuleTransform",
    "TensorDictPrimer",
    "Transform",
    "TransformedEnv",
]
