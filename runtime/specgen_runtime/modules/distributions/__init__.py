"""Distributions of actions, on those of torch.distributions."""

from tensordict.nn import NormalParamExtractor

from specgen_runtime.modules.distributions.continuous import IndependentNormal, TanhNormal
from specgen_runtime.modules.distributions.delta import Delta, TanhDelta
from specgen_runtime.modules.distributions.discrete import (
    LLMMaskedCategorical,
    OneHotCategorical,
    OneHotOrdinal,
    Ordinal,
    ReparamGradientStrategy,
)
from specgen_runtime.modules.distributions.divergences import (
    entropy,
    has_analytic_entropy,
    has_analytic_kl,
    kl_divergence,
)
from specgen_runtime.modules.distributions.draws import (
    deterministic_sample,
    rsample_and_log_prob,
    sample_and_log_prob,
)
from specgen_runtime.modules.distributions.masked import MaskedCategorical, MaskedOneHotCategorical
from specgen_runtime.modules.distributions.truncated_normal import TruncatedNormal

__all__ = [
    "Delta",
    "IndependentNormal",
    "LLMMaskedCategorical",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "NormalParamExtractor",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "ReparamGradientStrategy",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
    "deterministic_sample",
    "entropy",
    "has_analytic_entropy",
    "has_analytic_kl",
    "kl_divergence",
    "rsample_and_log_prob",
    "sample_and_log_prob",
]
