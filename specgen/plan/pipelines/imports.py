"""What modules that train import, besides what all generated modules may."""

from __future__ import annotations

from specgen.check.pipelines.heads_model import MixerHead
from specgen.check.pipelines.layers_model import trunks_of
from specgen.check.pipelines.model import CheckedPipeline
from specgen.check.sources import PythonSource
from specgen.imported import Import
from specgen.plan.pipelines.hindsight import hindsight_imports
from specgen.plan.pipelines.language_models import further_models
from specgen.plan.pipelines.layers import own_alias
from specgen.plan.pipelines.update import output_of

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

PIPELINE_IMPORTS: dict[str, Import] = {
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


def pipeline_imports(pipeline: CheckedPipeline, module: str) -> dict[str, Import]:
    """What the module of a pipeline may import, with its environment and its losses."""
    own = [(env.module, env.name) for env in (pipeline.env, pipeline.eval_env)]
    own += [(loss.loss.module, loss.loss.name) for loss in pipeline.losses]
    own += [(loss.loss.module, output_of(loss)) for loss in pipeline.losses]
    own += [(one.module, one.maker) for one in further_models(pipeline)]
    acting = [one.language_model for one in pipeline.networks]
    own += [(one.module, one.maker) for one in acting if one is not None]
    made = {name: Import(origin, name) for origin, name in own if origin != module}
    for env in (pipeline.env, pipeline.eval_env):
        if env.module != module:
            data = f"{env.name}Data"
            made[data] = Import(env.module, data, typing_only=True)
    stand = [one.layers for one in trunks_of(pipeline.networks)]
    stand += [one.layers for one in pipeline.networks]
    for layers in stand:
        if layers.own is not None:
            made |= _of_own(layers.own.source)
    for network in pipeline.networks:
        if isinstance(network.head, MixerHead) and network.head.own is not None:
            made |= _of_own(network.head.own)
    return PIPELINE_IMPORTS | made | hindsight_imports(pipeline, module)


def _of_own(source: PythonSource) -> dict[str, Import]:
    """The import of a class of one's own, under the name that it has in the module."""
    alias = own_alias(source)
    return {alias: Import(source.module, source.name, alias=alias)}


def pipeline_names(pipeline: CheckedPipeline) -> tuple[str, ...]:
    """What the module of a pipeline has for others."""
    names = (pipeline.name, f"{pipeline.name}Config", f"{pipeline.name}Metrics", "train", "update")
    return names if pipeline.compile is None else (*names, "losses_of")
