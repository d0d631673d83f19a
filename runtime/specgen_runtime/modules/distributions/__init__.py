"""Distributions of actions, on those of torch.distributions."""

from tensordict.nn import AddStateIndependentNormalScale, CompositeDistribution, NormalParamExtractor

from specgen_runtime.modules.distributions.choices import log_probs, probs
from specgen_runtime.modules.distributions.continuous import (
    Delta,
    IndependentNormal,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)
from specgen_runtime.modules.distributions.discrete import (
    Categorical,
    LLMMaskedCategorical,
    MaskedCategorical,
    MaskedOneHotCategorical,
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
from specgen_runtime.modules.distributions.multi import (
    IndependentBernoulli,
    MultiCategorical,
    MultiOneHotCategorical,
)
from specgen_runtime.modules.distributions.scaled_beta import BetaParamExtractor, ScaledBeta

__all__ = [
    "AddStateIndependentNormalScale",
    "BetaParamExtractor",
    "Categorical",
    "CompositeDistribution",
    "Delta",
    "IndependentBernoulli",
    "IndependentNormal",
    "LLMMaskedCategorical",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "MultiCategorical",
    "MultiOneHotCategorical",
    "NormalParamExtractor",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "ReparamGradientStrategy",
    "ScaledBeta",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
    "deterministic_sample",
    "entropy",
    "has_analytic_entropy",
    "has_analytic_kl",
    "kl_divergence",
    "log_probs",
    "probs",
    "rsample_and_log_prob",
    "sample_and_log_prob",
]
