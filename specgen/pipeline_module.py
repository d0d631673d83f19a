"""Names in the module of a pipeline: what it may import besides what all generated modules may, and its functions."""

from __future__ import annotations

from typing import Final

from specgen.imported import Import

_TRAINING = (
    "Adam",
    "AdamW",
    "Backward",
    "PipelineParts",
    "RewardBonus",
    "Run",
    "available_device",
    "check_compiler",
    "clip_grad_norm_",
    "command_line",
    "column_minibatches",
    "cosine",
    "device_param",
    "draw_curve",
    "equal_parts",
    "evaluate",
    "exponential",
    "joined",
    "linear",
    "load_generator",
    "mean_losses",
    "minibatches",
    "piecewise",
    "stream",
    "write_next_actions",
)
_MODULES = (
    "AddStateIndependentNormalScale",
    "AdditiveGaussianModule",
    "Autocast",
    "BetaParamExtractor",
    "CentralizedNet",
    "CompositeDistribution",
    "ConvNet",
    "Delta",
    "DistributionalQValueActor",
    "EGreedyModule",
    "GRUModule",
    "DuelingValues",
    "GSDEHead",
    "GSDEPolicy",
    "IndependentBernoulli",
    "IndependentNormal",
    "LSTMModule",
    "MLP",
    "MaskedCategorical",
    "MaskedOneHotCategorical",
    "MultiAgentMLP",
    "MultiOneHotCategorical",
    "NormalParamExtractor",
    "OneHotCategorical",
    "OneHotOrdinal",
    "Ordinal",
    "OrnsteinUhlenbeckProcessModule",
    "OutputHeads",
    "ProbabilisticActor",
    "QMixer",
    "QValueActor",
    "QuantileQValueActor",
    "SafeModule",
    "SafeSequential",
    "ScaledBeta",
    "Sequential",
    "TanhDelta",
    "TanhNormal",
    "Trunk",
    "TruncatedNormal",
    "VDNMixer",
    "ValueOperator",
    "orthogonal",
    "own_layers",
    "own_mixer",
    "own_parameters",
)
_DATA = (
    "HERReplayBuffer",
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "PrioritizedSampler",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "TensorDictReplayBuffer",
    "TensorStorage",
    "load_recorded",
)

_RENAMED = {
    "CategoricalDistribution": "Categorical",
    "MultiCategoricalDistribution": "MultiCategorical",
    "OneHotLayer": "OneHot",
}
"""What is imported under another name, since specs that the module may print are called so."""

PIPELINE_IMPORTS: Final[dict[str, Import]] = {
    "Path": Import("pathlib", "Path"),
    "ExplorationType": Import("specgen_runtime.envs", "ExplorationType"),
    "SerialEnv": Import("specgen_runtime.envs", "SerialEnv"),
    "cached_property": Import("functools", "cached_property"),
    "partial": Import("functools", "partial"),
    "BaseCollector": Import("specgen_runtime.collectors", "BaseCollector", typing_only=True),
    "EnvBase": Import("specgen_runtime.envs", "EnvBase", typing_only=True),
    "TargetNetUpdater": Import("specgen_runtime.objectives", "TargetNetUpdater", typing_only=True),
    **{
        name: Import("specgen_runtime.collectors", name)
        for name in ("MultiAsyncCollector", "MultiSyncCollector", "RayCollector")
    },
    "Collector": Import("specgen_runtime.collectors", "Collector"),
    "load_weights": Import("specgen_runtime.collectors", "load_weights"),
    "with_primers": Import("specgen_runtime.collectors", "with_primers"),
    "with_transform": Import("specgen_runtime.collectors", "with_transform"),
    **{
        name: Import("specgen_runtime.llm", name)
        for name in (
            *("RetrieveLogProb", "conversation_advantage", "group_advantage", "groups_of_workers"),
            "recorded_conversations",
        )
    },
    "warn_of_coarse_parameters": Import("specgen_runtime.llm.models.coarse", "warn_of_coarse_parameters"),
    "CommonStatistics": Import("specgen_runtime.transforms", "CommonStatistics"),
    "TransformedEnv": Import("specgen_runtime.transforms", "TransformedEnv"),
    "InitTracker": Import("specgen_std.transforms.init_tracker", "InitTracker"),
    "SoftUpdate": Import("specgen_runtime.objectives", "SoftUpdate"),
    "MultiStepTransform": Import("specgen_runtime.transforms", "MultiStepTransform"),
    "HardUpdate": Import("specgen_runtime.objectives", "HardUpdate"),
    **{name: Import("specgen_runtime.training", name) for name in _TRAINING},
    **{name: Import("specgen_runtime.modules", name) for name in _MODULES},
    **{name: Import("specgen_runtime.data", name) for name in _DATA},
    **{alias: Import("specgen_runtime.modules", name, alias=alias) for alias, name in _RENAMED.items()},
}
"""Names that modules of pipelines may use, and where each comes from."""

PIPELINE_FUNCTIONS: Final = (
    *("losses_of", "main", "train", "update"),
    *("reward_in_hindsight", "terminated_in_hindsight"),
)
"""The functions that a module of a pipeline may have, besides those that make networks."""

NAMES_IN_PIPELINES: Final = PIPELINE_IMPORTS.keys() | {*PIPELINE_FUNCTIONS}
"""What nothing else in the module of a pipeline can be called."""
