"""The networks of a pipeline that are language models: which model, and whether it can act and learn in conversations."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.losses.model import LossNetwork
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import ModelHead
from specgen.check.pipelines.layers_model import NO_LAYERS
from specgen.check.pipelines.model import PipelineNetwork
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.unseen import unseen
from specgen.diagnostics import Diagnostic, Note
from specgen.diagnostics.rules import llm as llm_rules
from specgen.diagnostics.rules import llm_chains as chain_rules
from specgen.diagnostics.rules import pipeline_conversations as rules
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipelines as pipeline_rules
from specgen.schema.pipeline_networks import NetworkBody

_READ = "tokens.full"
"""What losses over tokens read, and give the model that learns."""


class LanguageModelReader(PartReader):
    """Reads the networks of a loss that are language models.

    Args:
        context: what all readers of the pipeline are given.
        env: its environment.
        loss: the class of the loss.
    """

    def __init__(self, context: PipelineContext, env: PipelineEnv, loss: str) -> None:
        super().__init__(context)
        self.env, self.loss = env, loss

    def network(self, name: str, role: LossNetwork, body: NetworkBody) -> PipelineNetwork | None:
        """A network that names a language model, or has a place among conversations; None after reporting a mistake."""
        here = (*self.path, "networks", name)
        span = self.file.key_span(*here)
        if body.causal_lm is None:
            message = f"`{self.env.name}` observes conversations, which layers don't read"
            help = f"write `{name}: {{causal_lm: …}}` with a model of `models`"
            self.sink.add(model_rules.NO_CONVERSATION.at(span, message, notes=[self._env_note()], help=help))
            return None
        beside = [field for field in body.model_fields_set if field not in ("causal_lm", "doc")]
        for field in beside:
            said = "in" if field == "in_" else field
            message = f"`{name}` is a language model, and `{said}` is of layers"
            place = self.file.key_span(*here, said)
            self.sink.add(pipeline_rules.CHOICE.at(place, message, help="leave it out"))
        place = self.file.span(*here, "causal_lm")
        if self.env.chat is None:
            message = f"`{self.env.name}` has no conversations that a language model could go on with"
            help = "take an environment with `chat:`, or a chain around one"
            self.sink.add(model_rules.NO_CONVERSATION.at(place, message, notes=[self._env_note()], help=help))
            return None
        if _READ not in role.inputs:
            message = f"`{self.loss}` has no language model as `{name}`"
            help = "take a loss over tokens: `GRPOLoss`, `DAPO`, `CISPOLoss`, `SFTLoss`, `DistillationLoss`"
            self.sink.add(model_rules.NO_CONVERSATION.at(place, message, help=help))
            return None
        models = self.scopes.at(place).models
        if body.causal_lm not in models:
            found = unseen("model", body.causal_lm, ("models",), models, place, rule=llm_rules.UNKNOWN_MODEL)
            self.sink.add(found)
            return None
        checked = models[body.causal_lm]
        if checked is None or beside:
            return None
        mistakes = [*self._mistakes(name, role, checked.value)]
        for mistake in mistakes:
            self.sink.add(mistake)
        if mistakes:
            return None
        doc = " ".join((body.doc or role.doc).split())
        return PipelineNetwork(name, role, NO_LAYERS, 0, ModelHead(checked.value), doc, span)

    def _env_note(self) -> Note:
        return Note("the environment", self.env.span)

    def _mistakes(self, name: str, role: LossNetwork, model: CheckedLanguageModel) -> Iterator[Diagnostic]:
        """What keeps a model from acting in the environment, and from learning of what it did."""
        place = self.file.span(*self.path, "networks", name, "causal_lm")
        declared = [Note("it is declared here", model.span)]
        if model.frozen:
            message = f"`{model.name}` is frozen, and `{self.loss}` trains it"
            help = "name the model that is to learn; a reference is the chain's: `RetrieveKL: {ref_model: …}`"
            notes = [Note("said here", model.place("frozen"))]
            yield chain_rules.TRAINED_REFERENCE.at(place, message, notes=notes, help=help)
            return
        if model.generate is None:
            message = f"`{model.name}` acts in `{self.env.name}`, and generates nothing"
            help = f"write `generate: {{max_new_tokens: 64}}` in `{model.name}`, say"
            yield chain_rules.POLICY_WITHOUT_GENERATE.at(place, message, notes=declared, help=help)
            return
        assert self.env.chat is not None
        wanted = self.env.chat.input
        if model.input != wanted:
            message = f"`{model.name}` reads {model.input}, and `{self.env.name}` gives {wanted}"
            notes = [Note("said here", model.place("input"))]
            help = f"write `input: {wanted}` in `{model.name}`"
            yield model_rules.OTHER_INPUT.at(place, message, notes=notes, help=help)
        if model.generate.num_samples is not None:
            message = f"`{model.name}` gives {model.generate.num_samples} answers to each prompt, and a conversation goes on with one"
            notes = [Note("said here", model.place("generate.num_samples"))]
            help = (
                f"leave out `num_samples`, and write `group: {model.generate.num_samples}` in the environment"
            )
            yield model_rules.SEVERAL_ANSWERS.at(place, message, notes=notes, help=help)
        if role.policy and model.generate.temperature == 0:
            message = (
                f"`{model.name}` always gives its likeliest answer: those to one prompt are all the same"
            )
            notes = [Note("said here", model.place("generate.temperature"))]
            help = "write `temperature: 1.0`; evaluations take the likeliest tokens anyway"
            yield model_rules.SAME_ANSWERS.at(place, message, notes=notes, help=help)
        if role.policy and not model.pad_output:
            message = f"rows of `{model.name}` are as long as they are, and minibatches are cut of tensors"
            notes = [Note("it is declared here", model.places.get("pad_output", model.span))]
            help = f"write `pad_output: true`, and `pad_to: 512`, say, in `{model.name}`"
            yield rules.RAGGED.at(place, message, notes=notes, help=help)
