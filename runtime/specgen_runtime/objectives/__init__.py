"""Losses: their parent class, value estimators, target updates."""

from specgen_runtime.objectives.common import LossModule
from specgen_runtime.objectives.distance import LossFunction, distance_loss
from specgen_runtime.objectives.functional import FunctionalModule
from specgen_runtime.objectives.keys import next_key, required
from specgen_runtime.objectives.networks import FunctionalNetwork
from specgen_runtime.objectives.randomness import VmapRandomness, add_random_module
from specgen_runtime.objectives.reduction import Reduction, reduce
from specgen_runtime.objectives.targets import HardUpdate, SoftUpdate, TargetNetUpdater
from specgen_runtime.objectives.value import (
    TD0Estimator,
    ValueEstimatorBase,
    ValueEstimators,
    td0_value_estimate,
)

__all__ = [
    "FunctionalModule",
    "FunctionalNetwork",
    "HardUpdate",
    "LossFunction",
    "LossModule",
    "Reduction",
    "SoftUpdate",
    "TD0Estimator",
    "TargetNetUpdater",
    "ValueEstimatorBase",
    "ValueEstimators",
    "VmapRandomness",
    "add_random_module",
    "distance_loss",
    "next_key",
    "reduce",
    "required",
    "td0_value_estimate",
]
