"""Distributions of actions, on those of torch.distributions."""

from tensordict.nn import NormalParamExtractor

from specgen_runtime.modules.distributions.continuous import IndependentNormal, TanhNormal
from specgen_runtime.modules.distributions.delta import Delta, TanhDelta
from specgen_runtime.modules.distributions.discrete import (
    OneHotCategorical,
    OneHotOrdinal,
    Ordinal,
    ReparamGradientStrategy,
)
from specgen_runtime.modules.distributions.draws import (
    deterministic_sample,
    rsample_and_log_prob,
    sample_and_log_prob,
)

__all__ = [
    "Delta",
    "IndependentNormal",
    "NormalParamExtractor",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "ReparamGradientStrategy",
    "TanhDelta",
    "TanhNormal",
    "deterministic_sample",
    "rsample_and_log_prob",
    "sample_and_log_prob",
]
