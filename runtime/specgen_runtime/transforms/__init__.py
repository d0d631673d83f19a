"""Transforms of environments: they change observations, rewards, done flags, actions and their specs."""

from specgen_runtime.transforms.action_chunks import ActionChunkTransform
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.batch import BatchSizeTransform, RemoveEmptySpecs
from specgen_runtime.transforms.common_statistics import CommonStatistics
from specgen_runtime.transforms.compose import Compose
from specgen_runtime.transforms.device import DeviceCastTransform, PinMemoryTransform
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.transforms.expand import ExpandAs
from specgen_runtime.transforms.finite import FiniteTensorDictCheck
from specgen_runtime.transforms.fixed_norm import FixedNorm
from specgen_runtime.transforms.function import FunctionTransform
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.module import ModuleTransform, RayModuleTransform
from specgen_runtime.transforms.multi_step import MultiStepTransform
from specgen_runtime.transforms.next_states import (
    NextObservationDelta,
    NextStateReconstructor,
    PolicyAgeFilter,
)
from specgen_runtime.transforms.pixels import PixelRenderTransform
from specgen_runtime.transforms.policy_switch import ConditionalPolicySwitch
from specgen_runtime.transforms.primer import TensorDictPrimer, gSDENoise
from specgen_runtime.transforms.replay import FlattenTensorDict, ReplayTransform
from specgen_runtime.transforms.sequences import BurnInTransform, RandomCropTensorDict
from specgen_runtime.transforms.skip import ConditionalSkip
from specgen_runtime.transforms.termination import TerminateTransform
from specgen_runtime.transforms.timer import Timer
from specgen_runtime.transforms.tokenizer import Tokenizer
from specgen_runtime.transforms.unary import Hash, UnaryTransform
from specgen_runtime.transforms.vec_norm import VecNormV2

__all__ = [
    "ActionChunkTransform",
    "BatchSizeTransform",
    "BurnInTransform",
    "CommonStatistics",
    "Compose",
    "ConditionalPolicySwitch",
    "ConditionalSkip",
    "DeviceCastTransform",
    "ExpandAs",
    "FiniteTensorDictCheck",
    "FixedNorm",
    "FlattenTensorDict",
    "FunctionTransform",
    "GeneratedTransform",
    "Hash",
    "ModuleTransform",
    "MultiStepTransform",
    "NextObservationDelta",
    "NextStateReconstructor",
    "PinMemoryTransform",
    "PixelRenderTransform",
    "PolicyAgeFilter",
    "RandomCropTensorDict",
    "RayModuleTransform",
    "RemoveEmptySpecs",
    "ReplayTransform",
    "TensorDictPrimer",
    "TerminateTransform",
    "Timer",
    "Tokenizer",
    "Transform",
    "TransformedEnv",
    "UnaryTransform",
    "VecNormV2",
    "gSDENoise",
]
