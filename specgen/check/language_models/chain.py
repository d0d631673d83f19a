"""Transforms that run language models, bound to their position in a chain."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from specgen.check.accelerators import accelerator
from specgen.check.chains.model import Instance
from specgen.check.chains.position import Position
from specgen.check.language_models.arguments import check_arguments, read_texts
from specgen.check.language_models.keys import read_key
from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.pairs import check_pair, needs_history
from specgen.check.language_models.recorded import check_roles
from specgen.check.language_models.transforms import (
    FROM_COLLECTOR,
    ModelInstance,
    ModelTransform,
    given_models,
)
from specgen.check.model import Checked, CheckedEnv, Entry, dotted, reward_entry
from specgen.check.param_arguments import check_argument
from specgen.check.unseen import unseen
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import devices as device_rules
from specgen.diagnostics.rules import flow as flow_rules
from specgen.diagnostics.rules import llm as rules
from specgen.diagnostics.rules import llm_chains as chain_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import SpecType
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile, find
from specgen.schema.other_names import meant_fields
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar


class ModelBinder:
    """Binds one transform: its arguments, its models, what it reads and writes.

    Attributes:
        file: where the chain is declared.
        path: the place of the transform in it.
        transform: the transform.
        models: the models that it may name; None for one with mistakes.
        state: the keys at its position, to which what it writes is added.
        sink: takes the mistakes.
    """

    def __init__(
        self,
        file: SchemaFile,
        path: tuple[str | int, ...],
        transform: ModelTransform,
        models: Mapping[str, Checked[CheckedLanguageModel] | None],
        state: Position,
        sink: Sink,
    ) -> None:
        self.file, self.path, self.transform = file, path, transform
        self.models, self.state, self.sink = models, state, sink
        node = find(file.root, path)
        self.given: dict[str, Node] = (
            {key.text: value for key, value in node.entries} if isinstance(node, MappingNode) else {}
        )
        self.here = file.key_span(*path)
        self.params: dict[str, Any] = {}
        self.keys: dict[str, Key] = {}
        self.found: dict[str, CheckedLanguageModel] = {}
        self.sound = True

    def bind(self, position: int) -> ModelInstance | None:
        """The transform at this position; None if it has mistakes, or a model that it names has."""
        before = self.sink.errors
        self._read_arguments()
        self._find_models()
        self._find_keys()
        check_pair(self.transform, self.found, self.keys, self.params, self.span, self.sink)
        check_roles(self.state.env, self.found, self.span, self.sink)
        self._check_penalty()
        self._check_reads()
        writes = self._writes()
        if self.sink.errors > before:
            self.sound = False
        chain = ".".join(map(str, self.path[:2]))
        return (
            ModelInstance(
                f"{chain}.transforms[{position}]",
                position,
                self.transform,
                self.found,
                self.keys,
                self.params,
                tuple(param.name for param in self.transform.arguments if param.name in self.given),
                tuple(writes),
            )
            if self.sound
            else None
        )

    def span(self, argument: str) -> Span:
        """Where an argument stands; the transform itself where it is not given."""
        return self.given[argument].span if argument in self.given else self.here

    # --------------------------------------------------------------- arguments

    def _read_arguments(self) -> None:
        name, known = self.transform.name, self.transform.keywords
        for argument in self.given:
            if argument not in known:
                help = suggestion(argument, known) or f"its arguments are {', '.join(sorted(known))}"
                message = f"`{name}` has no argument `{argument}`"
                span = self.file.key_span(*self.path, argument)
                self.sink.add(schema_rules.UNKNOWN_FIELD.at(span, message, help=help))
        for param in self.transform.params:
            self.params[param.name] = param.default
            if param.name in self.given:
                before = self.sink.errors
                value = check_argument(param, self.given[param.name], name, self.sink)
                if self.sink.errors == before:
                    self.params[param.name] = value
        for texts in self.transform.texts:
            node = self.given.get(texts.name)
            self.params[texts.name] = None if node is None else read_texts(texts, node, name, self.sink)
        check_arguments(self.transform, self.params, self.given, self.span, self.sink)

    def _find_models(self) -> None:
        misspelt = meant_fields(self.given, self.transform.keywords)
        remote = self.params.get("use_ray_service") is True
        for keyword, usual in self.transform.models.items():
            required = usual or remote  # no model is sent to another process: it is made there
            node = self.given.get(keyword)
            if node is None:
                if required and keyword not in misspelt:
                    where = "" if usual else " with `use_ray_service`"
                    message = f"`{self.transform.name}` needs `{keyword}`{where}"
                    help = f"name a model of `models`: `{self.transform.name}: {{{keyword}: …}}`"
                    self.sink.add(schema_rules.MISSING_FIELD.at(self.here, message, help=help))
                continue
            if not isinstance(node, Scalar):
                message = f"`{keyword}` should be the name of a model"
                self.sink.add(schema_rules.WRONG_TYPE.at(node.span, message))
                continue
            name = node.text
            if name == FROM_COLLECTOR and not required:
                continue
            if name not in self.models:
                self.sink.add(
                    unseen("model", name, ("models",), self.models, node.span, rule=rules.UNKNOWN_MODEL)
                )
            elif (model := self.models[name]) is None:
                self.sound = False  # its mistakes are said where it is declared
            else:
                self.found[keyword] = model.value

    def _find_keys(self) -> None:
        """The key of each keyword: as given, as the model says, or as usual."""
        for keyword, usual in self.transform.keys.items():
            if (node := self.given.get(keyword)) is not None:
                self.keys[keyword] = read_key(node, keyword, self.sink)
                continue
            if usual is None:
                continue
            model = self.found.get(_MODEL_OF.get(keyword, ""))
            if model is not None and model.log_probs_key is not None:
                self.keys[keyword] = (*model.log_probs_key, "full")
            else:
                self.keys[keyword] = tuple((usual or "log_probs.full").split("."))

    # ------------------------------------------------------------------ checks

    def _check_penalty(self) -> None:
        if not (coefficient := self.transform.coefficient):
            return
        value = self.params[coefficient]
        if isinstance(value, int | float) and value < 0:
            message = f"`{coefficient}: {value}` rewards distance from the reference"
            self.sink.add(
                chain_rules.NEGATIVE_COEFFICIENT.at(self.span(coefficient), message, help=f"write {-value}")
            )
        elif isinstance(value, float) and not math.isfinite(value):
            message = f"`{coefficient}` of `{self.transform.name}` must be finite, got {value}"
            self.sink.add(schema_rules.PARAM_OUT_OF_RANGE.at(self.span(coefficient), message))
        elif value == 0 and self.params["target_kl"] is not None:
            message = (
                f"`{coefficient}` of `{self.transform.name}` is 0, and stays 0: `target_kl` multiplies it"
            )
            help = f"write `{coefficient}: 0.01`, say, to begin with"
            self.sink.add(schema_rules.PARAM_OUT_OF_RANGE.at(self.span(coefficient), message, help=help))
        estimator = self.params["estimator"]
        if self.params["add_to_reward"] and estimator != "k1":
            message = f"`{estimator}` in the reward {_GRADIENTS[estimator]}"
            help = "write `estimator: k1`, or `add_to_reward: false` where only the values are wanted"
            self.sink.add(chain_rules.WRONG_ESTIMATOR.at(self.span("estimator"), message, help=help))
        if estimator == "full" and self.params["level"] == "sequence":
            message = (
                "`full` is the KL of each token's distribution, and `level: sequence` that of whole answers"
            )
            help = "write `level: token`"
            self.sink.add(schema_rules.PARAM_OUT_OF_RANGE.at(self.span("level"), message, help=help))
        if not self.params["add_to_reward"]:
            return
        reward = self.state.entries.get("reward")
        width = next((model.pad_to for model in self.found.values()), None)
        if reward is not None and reward.role == "reward" and reward.type.shape not in ((), (width,)):
            message = (
                f"`reward` is {reward.spec}: neither one for a conversation nor one for each of its tokens"
            )
            help = "write `add_to_reward: false`, or sum the reward before"
            self.sink.add(chain_rules.REWARD_RANK.at(self.here, message, help=help))

    def _check_reads(self) -> None:
        """What models read is there, and so are log-probabilities that are computed with."""
        entries = {**self.state.entries, **self.state.actions}
        mask = entries.get(dotted(self.keys.get("mask_key", ())))
        if mask is not None and mask.type.dtype != "bool":
            message = f"`{mask.dotted}` is {mask.spec}, and a mask of tokens is of truth values"
            help = "name a key of dtype bool"
            self.sink.add(chain_rules.KL_KEY.at(self.span("mask_key"), message, help=help))
        for keyword, model in self.found.items():
            key = f"{model.input}.full"
            if key not in entries and not needs_history(self.transform, model, self.params):
                shown = ", ".join(sorted(entries))
                message = f"`{model.name}` reads `{key}`, which is not there for `{self.transform.name}`"
                help = "models read conversations of an environment with `chat:`"
                span = self.span(keyword)
                self.sink.add(
                    flow_rules.NO_SUCH_KEY.at(span, message, notes=[f"the keys here are {shown}"], help=help)
                )
        if self.transform.name == "KLComputation":
            gen, ref = "gen_log_probs_full_key", "ref_log_probs_full_key"
            self._check_written(gen)
            if self.keys[gen] != self.keys[ref]:
                self._check_written(ref)
            else:
                message = f"both log-probabilities are `{dotted(self.keys[gen])}`: the penalty is always 0"
                help = f"give `{ref}` the key of the reference's"
                self.sink.add(chain_rules.KL_KEY.at(self.span(ref), message, help=help))

    def _check_written(self, keyword: str) -> None:
        key = dotted(self.keys[keyword])
        if key not in self.state.entries:
            read = {dotted(other) for other in self.keys.values()} - {key}
            written = [name for name in self.state.entries if name.endswith("full") and name not in read]
            message = f"`{key}` is not there yet: no transform before `{self.transform.name}` writes it"
            help = (
                suggestion(key, written)
                or f"put `RetrieveLogProb: {{model: …, log_probs_full_key: {key}}}` before it"
            )
            self.sink.add(chain_rules.KL_KEY.at(self.span(keyword), message, help=help))

    # ------------------------------------------------------------------ writes

    def _writes(self) -> list[Entry]:
        """What it leaves behind, which is added to the keys of this position."""
        width = next((model.pad_to for model in self.found.values()), None) or self._width_read() or 1
        writes: list[Entry] = []
        # the keys follow from models: of one that is not known nobody can say that they collide
        collides = any(
            required and name not in self.found for name, required in self.transform.models.items()
        )
        for keyword in _WRITTEN[self.transform.name]:
            if not (key := self.keys[keyword]):
                continue
            spec = SpecType("unbounded", "float32", (width,))
            entry = Entry(key, "observation", spec, spec.type(), _DOCS[keyword])
            if collides:  # one key that is taken says enough
                self.state.entries.setdefault(entry.dotted, entry)
                continue
            before = self.sink.errors
            if self._is_free(entry, keyword, writes):
                writes.append(entry)
            collides = self.sink.errors > before
        if self.transform.coefficient and self.params["add_to_reward"] and self.params["spread"] == "tokens":
            writes.append(reward_entry(("reward",), (width,)))
        self.state.entries.update((entry.dotted, entry) for entry in writes)
        return writes

    def _width_read(self) -> int | None:
        """The width of the log-probabilities that are computed with."""
        key = self.keys.get("gen_log_probs_full_key", ())
        entry = self.state.entries.get(dotted(key))
        return entry.type.shape[-1] if entry is not None and entry.type.shape else None

    def _is_free(self, entry: Entry, keyword: str, beside: Collection[Entry]) -> bool:
        """Whether a key can be written; a mistake goes to the sink."""
        if entry.dotted in {other.dotted for other in beside}:
            if keyword not in ("gen_log_probs_full_key", "ref_log_probs_full_key"):
                message = f"`{self.transform.name}` writes `{entry.dotted}` twice"
                self.sink.add(
                    chain_rules.KL_KEY.at(self.span(keyword), message, help=f"give `{keyword}` another key")
                )
            return False
        taken = self.state.entries.get(entry.dotted)
        if taken is None and entry.dotted not in self.state.actions:
            return self.state.written_keys.note_written(entry, self.transform.name, self.here)
        writer = self.state.written_keys.last_writers.get(entry.dotted)
        by = f"`{writer[0]}`" if writer is not None else "the environment"
        notes = [] if writer is None else [Note("the first one", writer[1])]
        rule = chain_rules.KL_KEY
        help = f"give `{keyword}` another key"
        if (
            self.transform.name == "RetrieveLogProb"
            and writer is not None
            and writer[0] == self.transform.name
        ):
            rule = chain_rules.SAME_LOG_PROBS_KEY
            help = "write `log_probs_key: ref_log_probs` in one of the models, or `log_probs_full_key` here"
        message = f"`{entry.dotted}` is written by `{self.transform.name}` and by {by}"
        self.sink.add(rule.at(self.span(keyword), message, notes=notes, help=help))
        return False


_MODEL_OF = {
    "gen_log_probs_full_key": "gen_model",
    "ref_log_probs_full_key": "ref_model",
    "log_probs_full_key": "model",
}
"""The keywords for keys that follow from a model's `log_probs_key`."""

_WRITTEN = {
    "RetrieveKL": ("gen_log_probs_full_key", "ref_log_probs_full_key", "kl_key"),
    "RetrieveLogProb": ("log_probs_full_key",),
    "KLComputation": ("kl_key",),
    "KLRewardTransform": ("kl_key", "ref_log_probs_key"),
}
"""The keywords for keys that each transform writes; others are read."""

_DOCS = {
    "gen_log_probs_full_key": "the policy's log-probability of each token",
    "ref_log_probs_full_key": "the reference's log-probability of each token",
    "ref_log_probs_key": "the reference's log-probability of each token",
    "log_probs_full_key": "the model's log-probability of each token",
    "kl_key": "the KL penalty of each token",
}

_GRADIENTS = {
    "abs": "pulls the policy in a wrong direction",
    "k2": "vanishes near the reference",
    "k3": "has the gradient of the reverse minus the forward KL",
    "k3+": "has the gradient of the reverse minus the forward KL",
    "full": "is right only beside the same as a loss",
    "k3_is": "has the gradient of the reverse minus the forward KL",
}


def check_models(
    instances: Sequence[ModelInstance], others: Iterable[Instance], env: CheckedEnv, span: Span, sink: Sink
) -> None:
    """Check what the transforms of a chain that run models ask of its environment, and of its constructor.

    Args:
        instances: these transforms.
        others: the other transforms of the chain.
        env: the environment.
        span: where the chain stands.
        sink: takes the mistakes.
    """
    if instances and env.chat is None and not sink.has_errors:
        message = f"`{instances[0].transform.name}` around `{env.name}`, which has no conversations"
        help = "chains with it stand around environments with `chat:`"
        sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=help))
    taken = dict.fromkeys(_CONSTRUCTOR, "a keyword of every environment of conversations")
    for other in others:
        taken |= dict.fromkeys(other.networks.values(), f"a network of `{other.transform.name}`")
    for model in {model.name: model for instance in instances for model in instance.models.values()}.values():
        if (what := taken.get(model.keyword)) is not None:
            message = f"the keyword of the model `{model.name}` would be `{model.keyword}`, which is {what}"
            sink.add(schema_rules.NAME_TAKEN.at(span, message, help="give the model another name"))
        taken[model.keyword] = f"that of the model `{model.name}`"
    _check_devices(given_models(instances), span, sink)


def _check_devices(models: Sequence[CheckedLanguageModel], span: Span, sink: Sink) -> None:
    """Report models that say accelerators of two kinds; those of Ray's actors may be on other machines."""
    first = next((model for model in models if accelerator(model.device)), None)
    for model in models:
        if first is None or accelerator(model.device) in (None, accelerator(first.device)):
            continue
        message = (
            f"`{model.name}` is on {model.device}, and `{first.name}` on {first.device}: no machine has both"
        )
        notes = [Note(f"the device of `{one.name}`", one.place("device")) for one in (model, first)]
        help = f"write `{accelerator(first.device)}:1`, say, for `{model.name}`"
        sink.add(device_rules.NEVER_MEET.at(span, message, notes=notes, help=help))


_CONSTRUCTOR = ("source", "shuffle", "batch_size", "seed", "device")
"""The keywords of environments of conversations."""
