"""Value estimators: the targets of value networks, computed from rewards and the values of next states."""

from specgen_runtime.objectives.value.base import ValueEstimatorBase
from specgen_runtime.objectives.value.gae import GAE, MultiAgentGAE
from specgen_runtime.objectives.value.kinds import ValueEstimators
from specgen_runtime.objectives.value.make_estimator import EstimatorType, make_estimator
from specgen_runtime.objectives.value.options import EstimatorOptions
from specgen_runtime.objectives.value.td import (
    TD0Estimator,
    TD1Estimator,
    TDEstimatorBase,
    TDLambdaEstimator,
)
from specgen_runtime.objectives.value.vtrace import VTrace

__all__ = [
    "GAE",
    "EstimatorOptions",
    "EstimatorType",
    "MultiAgentGAE",
    "TD0Estimator",
    "TD1Estimator",
    "TDEstimatorBase",
    "TDLambdaEstimator",
    "VTrace",
    "ValueEstimatorBase",
    "ValueEstimators",
    "make_estimator",
]
