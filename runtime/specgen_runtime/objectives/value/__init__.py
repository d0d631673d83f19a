"""Value estimators: what a value network should have said."""

from .base import ValueEstimatorBase
from .kinds import ValueEstimators
from .making import EstimatorType, made_estimator
from .td0 import TD0Estimator, td0_value_estimate

__all__ = [
    "EstimatorType",
    "TD0Estimator",
    "ValueEstimatorBase",
    "ValueEstimators",
    "made_estimator",
    "td0_value_estimate",
]
