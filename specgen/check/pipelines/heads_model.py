"""The heads of the networks of a pipeline: what becomes of what their last layers give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import Entry
from specgen.check.pipelines.distributions import Family
from specgen.expr.symbols import Key
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Setting

ScaleKind = Literal["state", "parameter", "fixed", "gsde"]


@dataclass(frozen=True)
class PolicyHead:
    """The head of a policy: parameters of a distribution over the action.

    Attributes:
        family: which distribution.
        action: what is drawn.
        scale: of a normal one: a head of its own, a trained number, one that stays, or that of noise that is linear in the
            features of the last hidden layer.
        value: that number.
        mask: the key of what says which actions are allowed.
        log_prob_key: under which the log-probability of what is drawn is stored; None where nobody reads it.
    """

    family: Family
    action: Entry
    scale: ScaleKind | None = None
    value: Setting | None = None
    mask: Key | None = None
    log_prob_key: Key | None = None

    @property
    def parameter_keys(self) -> tuple[Key, ...]:
        """Where the parameters of the distribution stand: beside the action."""
        return tuple((*self.action.key[:-1], name) for name in self.family.parameters)


@dataclass(frozen=True)
class ValueSupport:
    """The values whose probabilities a network gives: how many, the lowest and the highest."""

    atoms: Setting
    low: Setting
    high: Setting


@dataclass(frozen=True)
class QValueHead:
    """The head of a network of action values: one for each action, or its distribution over a support; the largest is chosen."""

    action: Entry
    mask: Key | None = None
    support: ValueSupport | None = None


@dataclass(frozen=True)
class ValueHead:
    """The head of any other network: one entry."""

    key: Key


@dataclass(frozen=True)
class FeatureHead:
    """The head of a module of tensors: numbers that only its loss knows."""


@dataclass(frozen=True)
class ModelHead:
    """No head of its own: a language model, which reads conversations or texts and gives each token of its answer.

    Attributes:
        model: the language model.
    """

    model: CheckedLanguageModel

    @property
    def log_probs_key(self) -> Key:
        """Of the group of log-probabilities that it writes."""
        return self.model.log_probs_key or ("log_probs",)

    @property
    def written(self) -> tuple[Key, ...]:
        """What it writes when it answers."""
        parts = ("prompt", "response", "full")
        keys: list[Key] = [("tokens", part) for part in parts]
        keys += [("masks", "all_attention_mask"), ("masks", "all_assistant_mask")]
        keys += [(*self.log_probs_key, part) for part in parts[1:]]
        keys += [("text", part) for part in parts] if self.model.input != "tokens" else []
        keys += [("history", part) for part in parts] if self.model.input == "history" else []
        return tuple(keys)

    @property
    def reads_tokens(self) -> tuple[Key, ...]:
        """What it reads where it scores the tokens of an answer."""
        return ("tokens", "full"), ("masks", "all_attention_mask"), ("masks", "all_assistant_mask")


Head = PolicyHead | QValueHead | ValueHead | FeatureHead | ModelHead
