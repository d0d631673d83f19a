"""The heads of the networks of a pipeline: what becomes of what their last layers give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import Entry
from specgen.check.pipelines.distributions import Family
from specgen.check.sources import PythonSource
from specgen.expr.symbols import Key
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Setting

ScaleKind = Literal["state", "parameter", "fixed", "gsde"]


@dataclass(frozen=True)
class ActionHead:
    """The part of a policy's head that is over one action: parameters of its distribution.

    Attributes:
        family: which distribution.
        action: what is drawn.
        outputs: how many numbers of the last layer it takes.
        scale: of a normal one: a head of its own, a trained number, one that stays, or that of noise that is linear in the
            features of the last hidden layer.
        value: that number.
        mask: the key of what says which actions are allowed.
    """

    family: Family
    action: Entry
    outputs: int
    scale: ScaleKind | None = None
    value: Setting | None = None
    mask: Key | None = None


@dataclass(frozen=True)
class PolicyHead:
    """The head of a policy: parameters of a distribution over the action, or over each of several.

    Attributes:
        actions: the part of each action.
        key: of the action; of several ones, of what holds them all.
        log_prob_key: under which the log-probability of what is drawn is stored, of several actions the sum; None where
            nobody reads it.
    """

    actions: tuple[ActionHead, ...]
    key: Key
    log_prob_key: Key | None = None

    @property
    def only(self) -> ActionHead | None:
        """The part of the only action; None where there are several."""
        return self.actions[0] if len(self.actions) == 1 else None

    @property
    def outputs(self) -> int:
        """How many numbers the last layer gives."""
        return sum(one.outputs for one in self.actions)

    @property
    def certain(self) -> bool:
        """Whether it gives one action for sure."""
        return all(one.family.certain for one in self.actions)

    @property
    def discrete(self) -> bool:
        """Whether all actions are of finitely many."""
        return all(one.family.discrete for one in self.actions)

    @property
    def explores_by_features(self) -> bool:
        """Whether its noise is linear in the features of the last hidden layer."""
        return any(one.scale == "gsde" for one in self.actions)

    @property
    def masks(self) -> tuple[Key, ...]:
        """The keys of what says which actions are allowed."""
        return tuple(one.mask for one in self.actions if one.mask is not None)

    @property
    def parameters(self) -> Key:
        """Where the parameters of all distributions stand, of several actions: beside these."""
        return (*self.key[:-1], "params")

    def name_of(self, one: ActionHead) -> Key:
        """What the distribution of one of several actions is called: the key of the action, without what holds them all."""
        return one.action.key[len(self.key) :]

    def parameter_keys(self, one: ActionHead) -> tuple[Key, ...]:
        """Where the parameters of the distribution of an action stand: of the only one beside it."""
        place = one.action.key[:-1] if self.only else (*self.parameters, *self.name_of(one))
        return tuple((*place, name) for name in one.family.parameters)


@dataclass(frozen=True)
class ValueSupport:
    """The values whose probabilities a network gives: how many, the lowest and the highest."""

    atoms: Setting
    low: Setting
    high: Setting

    @property
    def count(self) -> Setting:
        """How many numbers the network gives of each action."""
        return self.atoms


@dataclass(frozen=True)
class ValueQuantiles:
    """The quantiles of values that a network gives: how many."""

    count: Setting | int


@dataclass(frozen=True)
class QValueHead:
    """The head of a network of action values, of which the largest is chosen.

    Attributes:
        action: what it chooses.
        mask: the key of what says which actions are allowed.
        distribution: what it gives of the distribution of each value, of which the largest mean is chosen; None of one that
            gives the value.
        choices: how many values each choice has, of an action that makes several; none of one choice.
        dueling: whether the network gives the value of the state, and advantages of actions.
    """

    action: Entry
    mask: Key | None = None
    distribution: ValueSupport | ValueQuantiles | None = None
    choices: tuple[int, ...] = ()
    dueling: bool = False

    @property
    def masks(self) -> tuple[Key, ...]:
        """The key of what says which actions are allowed, where there is such."""
        return () if self.mask is None else (self.mask,)


@dataclass(frozen=True)
class ValueHead:
    """The head of any other network: one entry."""

    key: Key


@dataclass(frozen=True)
class MixerHead:
    """No head of its own: a mixer, which makes the value of a team of those of its agents' actions.

    Attributes:
        key: what it writes.
        values: the values of the agents' actions.
        agents: how many there are.
        hidden: how many hidden numbers a `QMixer` has; None of another one.
        state: what it reads besides, with all dimensions; None of one that reads nothing, such as the sum.
        own: where a class of one's own stands; None of those of the library.
    """

    key: Key
    values: Key
    agents: int
    hidden: int | Setting | None = None
    state: Entry | None = None
    own: PythonSource | None = None


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


Head = PolicyHead | QValueHead | ValueHead | MixerHead | FeatureHead | ModelHead


def action_keys(head: Head) -> tuple[Key, ...]:
    """The keys of the actions that a network chooses."""
    match head:
        case QValueHead(action):
            return (action.key,)
        case PolicyHead(actions):
            return tuple(one.action.key for one in actions)
        case _:
            return ()
