"""Value estimators: the targets of value networks, computed from rewards and the values of next states."""

from specgen_runtime.objectives.value.base import ValueEstimatorBase
from specgen_runtime.objectives.value.kinds import ValueEstimators
from specgen_runtime.objectives.value.make_estimator import EstimatorType, make_estimator
from specgen_runtime.objectives.value.td0 import TD0Estimator, td0_value_estimate

__all__ = [
    "EstimatorType",
    "TD0Estimator",
    "ValueEstimatorBase",
    "ValueEstimators",
    "make_estimator",
    "td0_value_estimate",
]
