"""TorchRL's public names for networks, policies and exploration that are not here: all others are."""

from __future__ import annotations

import pytest
import specgen_runtime.modules as ours

pytestmark = pytest.mark.peers

WORLD_MODELS = {
    *(
        "DreamerActor",
        "DreamerV3BlockGRU",
        "DreamerV3BlockGRUCell",
        "DreamerV3DiscreteActor",
        "DreamerV3ImageDecoder",
    ),
    *(
        "DreamerV3ImageEncoder",
        "DreamerV3MLP",
        "DreamerV3SeededPolicy",
        "GPWorldModel",
        "ObsDecoder",
        "ObsEncoder",
    ),
    *(
        "RBFController",
        "RSSMPosterior",
        "RSSMPosteriorV3",
        "RSSMPrior",
        "RSSMPriorV3",
        "RSSMRollout",
        "RSSMRolloutV3",
    ),
    *("RSSMStateEstimatorV3", "SymExpTwoHot", "WorldModel", "WorldModelWrapper", "symexp", "symlog"),
}
"""And what is for their numbers alone."""

PLANNERS = {
    *("CEMPlanner", "MPCPlannerBase", "MPPIPlanner"),
    *("EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"),
}

OF_MODELS_ELSEWHERE = {
    *("DiffusionActor", "LMHeadActorValueOperator", "LeRobotPolicyWrapper", "TinyVLA", "VLAWrapperBase"),
}
"""Networks around models of other packages, and those that run step by step."""

OLD = {
    *("AdditiveGaussianWrapper", "EGreedyWrapper", "OrnsteinUhlenbeckProcessWrapper", "NormalParamWrapper"),
    *("DistributionalQValueHook", "QValueHook", "distributions_maps", "functional"),
}
"""Old forms of `…Module`, `NormalParamExtractor`, `QValueModule`, and names without a use of their own."""

OPEN = {
    *("MultiStepActorWrapper",),
    *("CrossCriticGroupSpec", "CrossGroupCritic"),
    *(
        "PercentileValueNorm",
        "RunningValueNorm",
        "ValueNorm",
        "ComposeValueTransform",
        "IdentityValueTransform",
    ),
    *("SignedHyperbolicValueTransform", "SymLogValueTransform", "ValueTransform"),
    *("signed_hyperbolic", "signed_parabolic", "get_env_transforms_from_module"),
    *("RecurrentMatmulPrecision", "RecurrentMatmulPrecisionUserMode", "canonicalize_rnn_subset"),
    *(
        "get_recurrent_matmul_precision",
        "set_recurrent_matmul_precision",
        "set_exploration_modules_spec_from_env",
    ),
}


def test_names() -> None:
    theirs = pytest.importorskip("torchrl.modules")
    missing = {name for name in theirs.__all__ if not hasattr(ours, name)}
    assert missing == WORLD_MODELS | PLANNERS | OF_MODELS_ELSEWHERE | OLD | OPEN


def test_what_is_here_is_public() -> None:
    theirs = pytest.importorskip("torchrl.modules")
    assert {name for name in theirs.__all__ if hasattr(ours, name)} <= set(ours.__all__)
