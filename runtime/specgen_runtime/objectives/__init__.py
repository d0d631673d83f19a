"""Losses: their parent class, value estimators, target updates."""

from specgen_runtime.envs.keys import next_key
from specgen_runtime.objectives.coefficients import (
    Coefficient,
    adapt,
    add_coefficient,
    add_coefficient_parts,
    as_pair,
    coefficient_part,
    own_buffer,
    pair_param,
    settle,
    settled,
    switched,
)
from specgen_runtime.objectives.common import LossModule
from specgen_runtime.objectives.distance import LossFunction, distance_loss
from specgen_runtime.objectives.domains import action_size, add_bounds
from specgen_runtime.objectives.draws import bernoulli_of, chosen_members, normal_like, uniform_like
from specgen_runtime.objectives.estimates import estimate_each
from specgen_runtime.objectives.functional import FunctionalModule
from specgen_runtime.objectives.hold_out import hold_out_net, hold_out_params
from specgen_runtime.objectives.input_gradient import input_gradient, member_gradients
from specgen_runtime.objectives.joined import joined_values
from specgen_runtime.objectives.keys import required
from specgen_runtime.objectives.learnables import add_learnable, exponential_of, moved_between, read_between
from specgen_runtime.objectives.modes import in_loss_modes
from specgen_runtime.objectives.networks import FunctionalNetwork
from specgen_runtime.objectives.normalizers import Normalizer, ValueNorm, with_methods
from specgen_runtime.objectives.optimizers import group_optimizers
from specgen_runtime.objectives.optional import not_none
from specgen_runtime.objectives.parameters import network_buffer
from specgen_runtime.objectives.part_names import add_part_names, entries_of_parts, has_parts
from specgen_runtime.objectives.part_weights import PartWeights, add_part_weights, part_weights, parts_of
from specgen_runtime.objectives.policies import (
    CertainPolicy,
    PolicyDistribution,
    as_policy,
    given_policy,
    is_random_policy,
)
from specgen_runtime.objectives.projection import check_support, project
from specgen_runtime.objectives.randomness import VmapRandomness, add_random_module
from specgen_runtime.objectives.reduction import Reduction, ScalarOutputMode, reduce
from specgen_runtime.objectives.selection import LossPart, check_returned, term_alone
from specgen_runtime.objectives.targets import HardUpdate, SoftUpdate, TargetNetUpdater
from specgen_runtime.objectives.value import (
    GAE,
    MultiAgentGAE,
    TD0Estimator,
    TD1Estimator,
    TDLambdaEstimator,
    ValueEstimatorBase,
    ValueEstimators,
    VTrace,
)

__all__ = [
    "GAE",
    "CertainPolicy",
    "Coefficient",
    "FunctionalModule",
    "FunctionalNetwork",
    "HardUpdate",
    "LossFunction",
    "LossModule",
    "LossPart",
    "MultiAgentGAE",
    "Normalizer",
    "PartWeights",
    "PolicyDistribution",
    "Reduction",
    "ScalarOutputMode",
    "SoftUpdate",
    "TD0Estimator",
    "TD1Estimator",
    "TDLambdaEstimator",
    "TargetNetUpdater",
    "VTrace",
    "ValueEstimatorBase",
    "ValueEstimators",
    "ValueNorm",
    "VmapRandomness",
    "action_size",
    "adapt",
    "add_bounds",
    "add_coefficient",
    "add_coefficient_parts",
    "add_learnable",
    "add_part_names",
    "add_part_weights",
    "add_random_module",
    "as_pair",
    "as_policy",
    "bernoulli_of",
    "check_returned",
    "check_support",
    "chosen_members",
    "coefficient_part",
    "distance_loss",
    "entries_of_parts",
    "estimate_each",
    "exponential_of",
    "given_policy",
    "group_optimizers",
    "has_parts",
    "hold_out_net",
    "hold_out_params",
    "in_loss_modes",
    "input_gradient",
    "is_random_policy",
    "joined_values",
    "member_gradients",
    "moved_between",
    "network_buffer",
    "next_key",
    "normal_like",
    "not_none",
    "own_buffer",
    "pair_param",
    "part_weights",
    "parts_of",
    "project",
    "read_between",
    "reduce",
    "required",
    "settle",
    "settled",
    "switched",
    "term_alone",
    "uniform_like",
    "with_methods",
]
