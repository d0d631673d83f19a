"""Networks, policies and exploration as modules, most of them of tensordicts."""

from specgen_runtime.modules.action_space import (
    ActionSpace,
    ActionSpaceName,
    action_index,
    choice_indices,
    find_action_space,
)
from specgen_runtime.modules.actors import (
    Actor,
    ActorCriticOperator,
    ActorCriticWrapper,
    ActorValueOperator,
    ProbabilisticActor,
    ValueOperator,
)
from specgen_runtime.modules.additive_gaussian import AdditiveGaussianModule
from specgen_runtime.modules.consistent_dropout import ConsistentDropout, ConsistentDropoutModule
from specgen_runtime.modules.decision_transformer import DecisionTransformerInferenceWrapper
from specgen_runtime.modules.distributional_qvalue import (
    DistributionalDQNnet,
    DistributionalQValueActor,
    DistributionalQValueModule,
)
from specgen_runtime.modules.distributions import (
    AddStateIndependentNormalScale,
    BetaParamExtractor,
    Categorical,
    CompositeDistribution,
    Delta,
    IndependentBernoulli,
    IndependentNormal,
    LLMMaskedCategorical,
    MaskedCategorical,
    MaskedOneHotCategorical,
    MultiCategorical,
    MultiOneHotCategorical,
    NormalParamExtractor,
    OneHotCategorical,
    OneHotOrdinal,
    Ordinal,
    ReparamGradientStrategy,
    ScaledBeta,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)
from specgen_runtime.modules.egreedy import EGreedyModule
from specgen_runtime.modules.gsde import LazygSDEModule, gSDEModule
from specgen_runtime.modules.gsde_policy import GSDEHead, GSDEPolicy
from specgen_runtime.modules.networks.autocast import Autocast
from specgen_runtime.modules.networks.batch_renorm import BatchRenorm1d
from specgen_runtime.modules.networks.centralized import CentralizedNet
from specgen_runtime.modules.networks.convnet import Conv3dNet, ConvNet
from specgen_runtime.modules.networks.ddpg import DdpgCnnActor, DdpgCnnQNet, DdpgMlpActor, DdpgMlpQNet
from specgen_runtime.modules.networks.decision_transformer import (
    DecisionTransformer,
    DTActor,
    OnlineDTActor,
)
from specgen_runtime.modules.networks.dueling import DuelingCnnDQNet, DuelingMlpDQNet, DuelingValues
from specgen_runtime.modules.networks.heads import OutputHeads
from specgen_runtime.modules.networks.init import orthogonal
from specgen_runtime.modules.networks.layers import (
    OneHot,
    Sequential,
    SquashDims,
    Squeeze2dLayer,
    SqueezeLayer,
)
from specgen_runtime.modules.networks.mixers import Mixer, QMixer, VDNMixer
from specgen_runtime.modules.networks.mlp import MLP
from specgen_runtime.modules.networks.multi_agent import MultiAgentConvNet, MultiAgentMLP, MultiAgentNetBase
from specgen_runtime.modules.networks.noisy import NoisyLazyLinear, NoisyLinear, reset_noise
from specgen_runtime.modules.networks.own import MakesLayers, MakesMixer, own_layers, own_mixer
from specgen_runtime.modules.normalizers import PopArtValueNorm, RunningMeanStd
from specgen_runtime.modules.ornstein_uhlenbeck import OrnsteinUhlenbeckProcessModule
from specgen_runtime.modules.quantile_qvalue import QuantileQValueActor, QuantileQValueModule
from specgen_runtime.modules.qvalue import QValueActor, QValueModule
from specgen_runtime.modules.qvalue_networks import as_choice_network, as_qvalue_ensemble, as_qvalue_network
from specgen_runtime.modules.random_policy import RandomPolicy
from specgen_runtime.modules.recurrent.cells import GRUCell, LSTMCell
from specgen_runtime.modules.recurrent.gru import GRUModule
from specgen_runtime.modules.recurrent.lstm import LSTMModule
from specgen_runtime.modules.recurrent.mode import recurrent_mode, set_recurrent_mode
from specgen_runtime.modules.recurrent.networks import GRU, LSTM
from specgen_runtime.modules.recurrent.primers import get_primers_from_module
from specgen_runtime.modules.safe import SafeModule
from specgen_runtime.modules.safe_probabilistic import SafeProbabilisticModule
from specgen_runtime.modules.safe_sequences import SafeProbabilisticTensorDictSequential, SafeSequential
from specgen_runtime.modules.tanh import TanhModule
from specgen_runtime.modules.trunk import Trunk, own_parameters
from specgen_runtime.modules.vmap_module import VmapModule

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "ActionSpace",
    "ActionSpaceName",
    "Actor",
    "ActorCriticOperator",
    "ActorCriticWrapper",
    "ActorValueOperator",
    "AddStateIndependentNormalScale",
    "AdditiveGaussianModule",
    "Autocast",
    "BatchRenorm1d",
    "BetaParamExtractor",
    "Categorical",
    "CentralizedNet",
    "CompositeDistribution",
    "ConsistentDropout",
    "ConsistentDropoutModule",
    "Conv3dNet",
    "ConvNet",
    "DTActor",
    "DdpgCnnActor",
    "DdpgCnnQNet",
    "DdpgMlpActor",
    "DdpgMlpQNet",
    "DecisionTransformer",
    "DecisionTransformerInferenceWrapper",
    "Delta",
    "DistributionalDQNnet",
    "DistributionalQValueActor",
    "DistributionalQValueModule",
    "DuelingCnnDQNet",
    "DuelingMlpDQNet",
    "DuelingValues",
    "EGreedyModule",
    "GRUCell",
    "GRUModule",
    "GSDEHead",
    "GSDEPolicy",
    "IndependentBernoulli",
    "IndependentNormal",
    "LLMMaskedCategorical",
    "LSTMCell",
    "LSTMModule",
    "LazygSDEModule",
    "MakesLayers",
    "MakesMixer",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "Mixer",
    "MultiAgentConvNet",
    "MultiAgentMLP",
    "MultiAgentNetBase",
    "MultiCategorical",
    "MultiOneHotCategorical",
    "NoisyLazyLinear",
    "NoisyLinear",
    "NormalParamExtractor",
    "OneHot",
    "OneHotCategorical",
    "OneHotOrdinal",
    "OnlineDTActor",
    "Ordinal",
    "OrnsteinUhlenbeckProcessModule",
    "OutputHeads",
    "PopArtValueNorm",
    "ProbabilisticActor",
    "QMixer",
    "QValueActor",
    "QValueModule",
    "QuantileQValueActor",
    "QuantileQValueModule",
    "RandomPolicy",
    "ReparamGradientStrategy",
    "RunningMeanStd",
    "SafeModule",
    "SafeProbabilisticModule",
    "SafeProbabilisticTensorDictSequential",
    "SafeSequential",
    "ScaledBeta",
    "Sequential",
    "SquashDims",
    "Squeeze2dLayer",
    "SqueezeLayer",
    "TanhDelta",
    "TanhModule",
    "TanhNormal",
    "TruncatedNormal",
    "Trunk",
    "VDNMixer",
    "ValueOperator",
    "VmapModule",
    "action_index",
    "as_choice_network",
    "as_qvalue_ensemble",
    "as_qvalue_network",
    "choice_indices",
    "find_action_space",
    "gSDEModule",
    "get_primers_from_module",
    "orthogonal",
    "own_layers",
    "own_mixer",
    "own_parameters",
    "recurrent_mode",
    "reset_noise",
    "set_recurrent_mode",
]
