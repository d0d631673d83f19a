"""The language models among the parts of a training: the one that acts and learns, and those that a chain runs besides."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.pipelines.data_model import RecordedData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.model import CheckedPipeline, PipelineLoss, PipelineNetwork
from specgen.check.pipelines.recorded_conversations import reference_key
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.pipelines.devices import device_of
from specgen.plan.spec_text import key_text


def language_models(pipeline: CheckedPipeline) -> tuple[PipelineNetwork, ...]:
    """The networks that are language models."""
    return tuple(one for one in pipeline.networks if one.language_model is not None)


def further_models(pipeline: CheckedPipeline) -> tuple[CheckedLanguageModel, ...]:
    """The models that the environments, or recorded conversations, run besides: references."""
    run = [model for env in (pipeline.env, pipeline.eval_env) for model in env.models]
    if isinstance(pipeline.data, RecordedData) and pipeline.data.ref_model is not None:
        run.append(pipeline.data.ref_model)
    found = {(model.module, model.name): model for model in run if _learning(pipeline, model) is None}
    return tuple(found.values())


def acting_model(
    pipeline: CheckedPipeline, network: PipelineNetwork, model: CheckedLanguageModel
) -> Iterator[Code]:
    """The statements that make a model that acts, which draws from a generator of its own.

    On a device of its own it is another one, with copies of the weights of the one that learns.
    """
    name, acting = f"self.{network.attribute}", f"self.{_acting(pipeline, network)}"
    made = _made(pipeline, model, f"device=self.{device_of(pipeline, 'loss')}")
    yield using(f"{name} = {made}", *made.uses)
    if acting != name:
        made = _made(pipeline, model, f"device=self.{device_of(pipeline, 'policy')}")
        yield using(f"{acting} = {made}", *made.uses)
        yield using(f"load_weights({acting}, {name})", "load_weights")
    yield using(f"{acting}.generator = self.exploring")
    for optimizer in pipeline.optimizers:
        if model.dtype in (None, "auto") and optimizer.steps_by_lr:  # it is that of the folder
            check = "warn_of_coarse_parameters"
            yield using(f"{check}({name}.model, config.{optimizer.lr.name})", check)


def further_model(pipeline: CheckedPipeline, model: CheckedLanguageModel) -> Code:
    """The statement that makes a reference: where the policy is, unless it says another device."""
    mine = [one.language_model.device for one in pipeline.networks if one.language_model is not None]
    here = model.device is None or model.device in mine
    place = f"device=self.{device_of(pipeline, 'policy')}" if here else ""
    made = _made(pipeline, model, place)
    return using(f"self.{model.maker} = {made}", *made.uses)


def _made(pipeline: CheckedPipeline, model: CheckedLanguageModel, place: str) -> Code:
    """The expression of a model, which runs in the precision of the pipeline."""
    made = f"{model.maker}({place})"
    if pipeline.precision == "float32":
        return using(made, model.maker)
    return using(f"{made}.get_new_version(autocast=torch.{pipeline.precision})", model.maker, "torch")


def scoring(loss: PipelineLoss, network: PipelineNetwork) -> str:
    """What a loss is given of a model that acts: it with the same weights, which scores the tokens of answers."""
    made = f"self.{network.attribute}"
    if network.language_model is None:
        return made
    words = ["generate=False", f"input_mode={literal('tokens')}"]
    if not network.role.policy:
        # Rows that were recorded are padded.
        words += ["pad_output=True", f"assistant_only={loss.assistant_only}"]
    return f"{made}.get_new_version({', '.join(words)})"


def recorded_chats(pipeline: CheckedPipeline) -> tuple[str, list[str]]:
    """The call that makes tokens of recorded conversations, which `recorded` gives; and the names that it uses."""
    (network, *_) = language_models(pipeline)
    return f"recorded_conversations(recorded(), self.{network.attribute})", ["recorded_conversations"]


def scored_by(pipeline: CheckedPipeline, data: RecordedData) -> tuple[list[str], list[str]]:
    """What a buffer of recorded conversations is told of the reference; and the names that this uses."""
    if data.ref_model is None:
        return [], []
    model = f"self.{data.ref_model.maker}.get_new_version(input_mode={literal('tokens')}, pad_output=True)"
    words = ["assistant_only=False"]
    if all(loss.assistant_only for loss in pipeline.losses):
        words.append(f"mask_key={key_text(('masks', 'all_assistant_mask'))}")
    words.append(f"log_probs_full_key={key_text(reference_key(pipeline.losses))}")
    made = f"RetrieveLogProb({', '.join((model, *words))})"
    return [f"transform={made}"], ["RetrieveLogProb"]


def given_to(pipeline: CheckedPipeline, env: PipelineEnv) -> Iterator[str]:
    """The keywords of the constructor of an environment that are models."""
    for model in env.models:
        network = _learning(pipeline, model)
        yield f"{model.keyword}=self.{model.maker if network is None else _acting(pipeline, network)}"


def _acting(pipeline: CheckedPipeline, network: PipelineNetwork) -> str:
    """The attribute of a model that acts."""
    return f"acting_{network.attribute}" if pipeline.devices.apart else network.attribute


def _learning(pipeline: CheckedPipeline, model: CheckedLanguageModel) -> PipelineNetwork | None:
    """The network that a model of a chain is, if it learns."""
    return next(
        (
            one
            for one in pipeline.networks
            if one.language_model is not None and one.language_model.is_same(model)
        ),
        None,
    )
