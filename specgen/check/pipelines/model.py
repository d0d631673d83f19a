"""What the checker proves of a pipeline and the planner may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, get_args

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.losses.model import CheckedLoss, LossNetwork, LossRole
from specgen.check.model import AgentGroup
from specgen.check.pipelines.bonuses_model import PipelineBonus
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import Head, MixerHead, ModelHead
from specgen.check.pipelines.layers_model import Layers, are_recurrent
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.diagnostics import Span
from specgen.expr.symbols import Key
from specgen.values import dataclass

GROUP_ADVANTAGE = "mc_advantage"
"""The estimator that compares the answers to one prompt; it is no loss's own."""

SettingKind = Literal["int", "float", "bool"]
ExplorationKind = Literal["epsilon_greedy", "gaussian", "ornstein_uhlenbeck", "gsde"]
EXPLORATIONS: tuple[ExplorationKind, ...] = get_args(ExplorationKind)
Sharing = Literal["group", "agent", "all"]


@dataclass(frozen=True)
class Setting:
    """A hyper-parameter: a field of the generated configuration.

    Attributes:
        name: the field.
        kind: whether it is a whole number, or a truth value.
        default: what the schema says.
        doc: one line, with the unit.
        range: what must hold of a value, as pairs of a comparison and a bound.
        span: where the schema says it.
    """

    name: str
    kind: SettingKind
    default: int | float
    doc: str
    range: tuple[tuple[str, float], ...]
    span: Span


@dataclass(frozen=True)
class Amount:
    """A number that training reads: a setting, or a schedule over settings.

    Attributes:
        setting: the setting; of a schedule its first value.
        schedule: the function of the counter, `linear`; None for a number that stays.
        further: the settings of its other arguments, in order; None where the end of the training is meant.
        points: of a `piecewise` one, the counts and the values there.
    """

    setting: Setting
    schedule: str | None = None
    further: tuple[Setting | None, ...] = ()
    points: tuple[tuple[Setting, Setting], ...] = ()

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting.name


@dataclass(frozen=True)
class PipelineNetwork:
    """A network of a pipeline.

    Attributes:
        name: its name under `networks:`.
        role: the loss's network.
        group: the agents that it is of; None where there is one only.
        per: how those share it.
        sizes: hyper-parameters that say how large it is, what it writes.
        layers: its layers in front of the head.
        outputs: how many numbers its last layer gives, times those that `sizes` are; of the values of actions, for each
            number of their distribution.
        head: what becomes of these.
        doc: one line.
        span: where it is declared.
    """

    name: str
    role: LossNetwork
    layers: Layers
    outputs: int
    head: Head
    doc: str
    span: Span
    group: AgentGroup | None = None
    per: Sharing = "group"
    sizes: tuple[Setting, ...] = ()

    @property
    def attribute(self) -> str:
        """The attribute of the parts, and the function that makes it."""
        return self.name.replace(".", "_")

    @property
    def has_parameters(self) -> bool:
        """Whether there is anything of it to learn; a sum has nothing."""
        return not (isinstance(self.head, MixerHead) and self.head.hidden is None and self.head.own is None)

    @property
    def language_model(self) -> CheckedLanguageModel | None:
        """The language model that it is; None of one with layers."""
        return self.head.model if isinstance(self.head, ModelHead) else None


def part_name(loss: str, part: str) -> str:
    """What a pipeline calls a network, a term or a metric of a loss of this name: that stands in front if it has one."""
    return f"{loss}.{part}" if loss else part


@dataclass(frozen=True)
class Exploration:
    """What acts besides the network.

    Attributes:
        kind: how.
        amount: the probability of a random action, or the deviation of the noise; None where a network says it.
        settings: the other numbers, by keyword.
    """

    kind: ExplorationKind
    amount: Amount | None
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True)
class Acting:
    """Who acts: a network, and how it explores.

    Attributes:
        networks: the network; with groups of agents one of each.
        exploration: what it does besides.
        explored: the networks whose actions are explored so.
        random_frames: frames at first in which actions are random.
    """

    networks: tuple[PipelineNetwork, ...]
    exploration: Exploration | None = None
    explored: tuple[PipelineNetwork, ...] = ()
    random_frames: Setting | None = None


@dataclass(frozen=True)
class PipelineLoss:
    """A loss of a pipeline with its arguments.

    Attributes:
        name: empty for the only one.
        loss: the loss, with the keys that its roles have in this pipeline.
        keys: those of them that are not the loss's own, by what `set_keys` calls the roles.
        group: the agents that it is of; None where there is one only.
        networks: the networks that it is given, in the order of its constructor.
        settings: arguments that are hyper-parameters, by keyword.
        schedules: those of them that change in training, by keyword; `settings` has their first values.
        pairs: arguments that are pairs of hyper-parameters, by keyword.
        by_action: arguments that are a hyper-parameter for each of several actions, by keyword and the key of the action
            below what holds all of them.
        arguments: the other arguments, by keyword.
        terms, metrics: the names of those that it has with these arguments; metrics are means.
        each: the metrics that are numbers of each sample.
        by_part: the metrics of each of several actions, as the log calls them: the entry of the loss, and that of the action in it.
        targets: the networks that have target parameters.
        unread: the roles that it does not read with these arguments.
        trained: the networks and learned numbers that each term trains, by their names in the pipeline.
        draws: whether it draws random numbers.
        span: where the pipeline names it.
        estimation: its value estimator.
    """

    name: str
    loss: CheckedLoss
    keys: Mapping[str, Key]
    group: AgentGroup | None
    networks: tuple[PipelineNetwork, ...]
    settings: Mapping[str, Setting]
    pairs: Mapping[str, tuple[Setting, ...]]
    by_action: Mapping[str, Mapping[Key, Amount]]
    arguments: Mapping[str, object]
    terms: tuple[str, ...]
    metrics: tuple[str, ...]
    targets: tuple[str, ...]
    trained: Mapping[str, tuple[str, ...]]
    draws: bool
    span: Span
    estimation: Estimation | None = None
    schedules: Mapping[str, Amount] = field(default_factory=dict)
    each: tuple[str, ...] = ()
    by_part: Mapping[str, tuple[Key, Key]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()

    def part(self, name: str) -> str:
        """The attribute of something of this loss, `adversary_loss`; without a name in front for the only loss."""
        return f"{self.name}_{name}" if self.name else name

    @property
    def assistant_only(self) -> bool:
        """Whether only what the assistant said counts, of conversations that were recorded."""
        return self.arguments.get("assistant_only", True) is True

    @property
    def learned(self) -> Mapping[str, str]:
        """Its learned numbers, by their names in the pipeline."""
        return {
            f"{self.name}.{one.name}" if self.name else one.name: one.name for one in self.loss.learnables
        }

    @property
    def terms_by_name(self) -> Mapping[str, str]:
        """Its terms, by their names in the pipeline."""
        return {f"{self.name}.{one}" if self.name else one: one for one in self.terms}

    @property
    def estimated(self) -> tuple[LossRole, ...]:
        """The roles that its value estimator writes before it."""
        estimation = self.estimation
        if estimation is None or estimation.when is None:
            return ()
        written = ("advantage",) if estimation.kind == GROUP_ADVANTAGE else ()
        return tuple(role for role in self.loss.roles if role.missing == "estimate" or role.name in written)

    @property
    def trainable(self) -> tuple[str, ...]:
        """The networks and learned numbers that its terms train, in their order."""
        return tuple(dict.fromkeys(name for term in self.terms for name in self.trained[term]))


@dataclass(frozen=True)
class Estimation:
    """The value estimator of the loss.

    Attributes:
        kind: its name, as losses declare it: `td0`, `gae`.
        settings: its numbers, by keyword.
        arguments: its other arguments.
        when: whether it runs before the loss: once for what was collected (`batch`), or again before each pass over it
            (`epoch`); None where the loss calls it.
        average_gae: where the schema says that it normalises advantages.
    """

    kind: str
    settings: Mapping[str, Setting]
    arguments: Mapping[str, object]
    when: Literal["batch", "epoch"] | None
    average_gae: Span | None = None


@dataclass(frozen=True)
class NextAction:
    """A policy whose next actions critics of other groups read: the attribute of its loss, and what that calls the policy."""

    loss: str
    network: str


@dataclass(frozen=True)
class PipelineOptimizer:
    """An optimizer.

    Attributes:
        name: its name; empty for the only one.
        kind: `adam`, `adamw`, `sgd` or `rmsprop`.
        lr: the step size.
        settings: its other numbers, by keyword of the schema.
        parts: the networks and learned numbers that it moves.
        every: updates between two of its steps.
        max_grad_norm: the norm that gradients are scaled down to.
        span: where it is declared.
    """

    name: str
    kind: str
    lr: Amount
    settings: Mapping[str, Setting]
    parts: tuple[str, ...]
    every: Setting | None
    max_grad_norm: Amount | None
    span: Span

    @property
    def steps_by_lr(self) -> bool:
        """Whether a step moves each parameter by about `lr`, whatever its gradient."""
        return self.kind in ("adam", "adamw")


@dataclass(frozen=True)
class Devices:
    """Where the parts of a pipeline lie.

    Attributes:
        env, policy, data, loss: the device of each, as torch names it.
        apart: whether each has a hyper-parameter of its own.
    """

    env: str = "cpu"
    policy: str = "cpu"
    data: str = "cpu"
    loss: str = "cpu"
    apart: bool = False


@dataclass(frozen=True)
class CheckedPipeline:
    """A pipeline whose parts are known to fit together.

    Attributes:
        eval_env: that of evaluations.
        settings: its hyper-parameters, in order.
        losses: the only one, or several that have names.
        acting: who acts.
        targets: how targets follow.
        optimizers: by whom each trained parameter is moved.
        devices: where the parts lie.
        precision: of what networks compute.
        compile: whether torch compiles the loss by default; None where that is no hyper-parameter.
        workers: the processes that collect; None where the one that learns does.
        bonuses: what is added to the reward.
        next_actions: the policies whose next actions critics of other groups read.
    """

    name: str
    module: str
    doc: str
    env: PipelineEnv
    eval_env: PipelineEnv
    settings: tuple[Setting, ...]
    networks: tuple[PipelineNetwork, ...]
    acting: Acting
    losses: tuple[PipelineLoss, ...]
    data: PipelineData
    targets: tuple[TargetUpdates, ...]
    optimizers: tuple[PipelineOptimizer, ...]
    limits: Limits
    devices: Devices
    bonuses: tuple[PipelineBonus, ...]
    seed: int
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool | None = None
    workers: CollectingWorkers | None = None
    next_actions: tuple[NextAction, ...] = ()

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """The numbers that may change in training."""
        exploration, data = self.acting.exploration, self.data
        found = [None if exploration is None else exploration.amount]
        found.append(data.beta if isinstance(data, ReplayData) else None)
        found += dict.fromkeys(one.amount for one in self.targets)
        found += [number for one in self.optimizers for number in (one.lr, one.max_grad_norm)]
        found += [one.coeff for one in self.bonuses]
        found += [amount for loss in self.losses for amount in loss.schedules.values()]
        found += [one for loss in self.losses for each in loss.by_action.values() for one in each.values()]
        found += self.env.changing.values()
        return tuple(one for one in found if one is not None)

    @property
    def recorded(self) -> str | None:
        """The folder of recorded transitions; None where all data are collected."""
        data = self.data
        if isinstance(data, RecordedData):
            return data.path
        return data.recorded if isinstance(data, ReplayData) else None

    @property
    def turns(self) -> int | None:
        """The most answers in a conversation, where it is learned from whole ones of several; else None."""
        chat = self.env.chat if isinstance(self.data, OnPolicyData) else None
        return None if chat is None or chat.max_turns == 1 else chat.max_turns

    @property
    def in_whole_rows(self) -> bool:
        """Whether minibatches of on-policy data are of environments with all their steps."""
        return self.turns is not None or are_recurrent(self.networks)

    @property
    def estimated(self) -> tuple[PipelineLoss, ...]:
        """The losses whose value estimator runs before them."""
        return tuple(
            one for one in self.losses if one.estimation is not None and one.estimation.when is not None
        )

    @property
    def groups(self) -> tuple[AgentGroup, ...]:
        """The groups of agents that learn."""
        return tuple(dict.fromkeys(one.group for one in self.losses if one.group is not None))
