"""Losses: their parent class, value estimators, target updates."""

from .common import LossModule
from .distance import LossFunction, distance_loss
from .functional import FunctionalModule
from .keys import next_key, required
from .networks import FunctionalNetwork
from .randomness import VmapRandomness, add_random_module
from .reduction import Reduction, reduce
from .targets import HardUpdate, SoftUpdate, TargetNetUpdater
from .value import TD0Estimator, ValueEstimatorBase, ValueEstimators, td0_value_estimate

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
