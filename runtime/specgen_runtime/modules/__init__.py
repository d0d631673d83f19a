"""Policies and exploration as tensordict modules."""

from specgen_runtime.modules.action_space import ActionSpace, ActionSpaceName, action_index, find_action_space
from specgen_runtime.modules.actors import (
    Actor,
    ActorCriticOperator,
    ActorCriticWrapper,
    ActorValueOperator,
    ProbabilisticActor,
    ValueOperator,
)
from specgen_runtime.modules.distributions import (
    Delta,
    IndependentNormal,
    LLMMaskedCategorical,
    MaskedCategorical,
    MaskedOneHotCategorical,
    NormalParamExtractor,
    OneHotCategorical,
    OneHotOrdinal,
    Ordinal,
    ReparamGradientStrategy,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)
from specgen_runtime.modules.egreedy import EGreedyModule
from specgen_runtime.modules.qvalue import QValueActor, QValueModule, as_qvalue_ensemble, as_qvalue_network
from specgen_runtime.modules.recurrent.mode import recurrent_mode, set_recurrent_mode
from specgen_runtime.modules.safe import (
    SafeModule,
    SafeProbabilisticModule,
    SafeProbabilisticTensorDictSequential,
    SafeSequential,
)

__all__ = [
    "ActionSpace",
    "ActionSpaceName",
    "Actor",
    "ActorCriticOperator",
    "ActorCriticWrapper",
    "ActorValueOperator",
    "Delta",
    "EGreedyModule",
    "IndependentNormal",
    "LLMMaskedCategorical",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "NormalParamExtractor",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "ProbabilisticActor",
    "QValueActor",
    "QValueModule",
    "ReparamGradientStrategy",
    "SafeModule",
    "SafeProbabilisticModule",
    "SafeProbabilisticTensorDictSequential",
    "SafeSequential",
    "TanhDelta",
    "TanhNormal",
    "TruncatedNormal",
    "ValueOperator",
    "action_index",
    "as_qvalue_ensemble",
    "as_qvalue_network",
    "find_action_space",
    "recurrent_mode",
    "set_recurrent_mode",
]
