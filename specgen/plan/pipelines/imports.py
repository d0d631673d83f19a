"""What modules that train import, and what they have for others."""

from __future__ import annotations

from specgen.check.pipelines.heads_model import MixerHead
from specgen.check.pipelines.layers_model import trunks_of
from specgen.check.pipelines.model import CheckedPipeline
from specgen.check.sources import PythonSource
from specgen.imported import Import
from specgen.pipeline_module import PIPELINE_IMPORTS
from specgen.plan.pipelines.hindsight import hindsight_imports
from specgen.plan.pipelines.language_models import further_models
from specgen.plan.pipelines.layers import own_alias
from specgen.plan.pipelines.update import output_of


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
