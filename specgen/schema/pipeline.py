"""The `pipelines:` section: an environment, networks, a loss, data and an optimizer that train together.

Whether something is missing is known when what a pipeline extends is merged into it, so that no field is required here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, DeclaredClass, ParamField
from specgen.schema.loss import Droppable
from specgen.schema.pipeline_data import Data
from specgen.schema.pipeline_networks import NetworkBody, Quantity
from specgen.schema.pipeline_workers import Workers


def names_losses(keys: Iterable[str]) -> bool:
    """Whether the keys of `loss:` are names of losses, `{agent: {ClipPPOLoss: {}}}`, and not the class of the only one."""
    return any(key[:1].islower() for key in keys)


class EpsilonGreedy(Declaration):
    """A random action with probability `eps`."""

    eps: Quantity | None = None


class GaussianNoise(Declaration):
    """Normal noise of deviation `sigma` on the action, which is clipped to its bounds."""

    sigma: Quantity | None = None


class OrnsteinUhlenbeck(Declaration):
    """Noise on the action that drifts within each episode, `noise + theta (0 - noise) dt + sigma sqrt(dt) N(0, 1)`."""

    sigma: Quantity | None = None
    theta: Quantity | None = None
    dt: Quantity | None = None


class GSDE(Declaration):
    """Noise that is linear in the features of the last hidden layer, generalized state-dependent exploration (Raffin et al. 2021).

    Attributes:
        every: steps after which its matrix is drawn anew; by default at the beginning of each episode only.
        sigma: its deviation at first, before squashing, where the mean square of the features is 1; 1 by default. It is trained.
    """

    every: Quantity | None = None
    sigma: Quantity | None = None


class Explore(Declaration):
    """How the policy explores; one of these."""

    epsilon_greedy: EpsilonGreedy | None = None
    gaussian: GaussianNoise | None = None
    ornstein_uhlenbeck: OrnsteinUhlenbeck | None = None
    gsde: GSDE | None = None


class Acting(Declaration):
    """Who acts.

    Attributes:
        of: the network that acts; by default the loss's policy, else its network of action values, greedily.
        explore: what it does besides, to explore; `none` where it is meant to do nothing.
        random_frames: frames at first in which actions are random.
    """

    of: str | None = None
    explore: Annotated[Literal["none"] | Explore | None, Field(union_mode="left_to_right")] = None
    random_frames: Quantity | None = None


class EstimatorNumbers(Declaration):
    """The numbers of a value estimator."""

    gamma: Quantity | None = None
    lmbda: Quantity | None = None
    average_gae: bool | None = None


class GroupAdvantage(Declaration):
    """How much better an answer is than the others to the same prompt.

    Attributes:
        group_size: answers to a prompt, which the environment says, too.
    """

    group_size: int | None = None


class Estimating(Declaration):
    """The value estimator, one of these, and when it runs.

    Attributes:
        when: `batch`, once for what was collected, or `epoch`, again before each pass over it.
    """

    td0: EstimatorNumbers | None = None
    td1: EstimatorNumbers | None = None
    td_lambda: EstimatorNumbers | None = None
    gae: EstimatorNumbers | None = None
    multi_agent_gae: EstimatorNumbers | None = None
    vtrace: EstimatorNumbers | None = None
    mc_advantage: GroupAdvantage | None = None
    when: Literal["batch", "epoch"] = "batch"


class Soft(Declaration):
    """Targets move by the fraction `tau` at each update."""

    tau: Quantity | None = None


class Hard(Declaration):
    """Targets are replaced every `interval` updates."""

    interval: Quantity | None = None


class TargetUpdate(Declaration):
    """How target parameters follow; one of these.

    Attributes:
        every: updates between two of its steps.
    """

    soft: Soft | None = None
    hard: Hard | None = None
    every: Quantity | None = None


def _target_form(value: object) -> str:
    """Which form the field has: `one`, how all targets follow, or `several`, by network."""
    if isinstance(value, TargetUpdate):
        return "one"
    if not isinstance(value, dict) or TargetUpdate.model_fields.keys() & value.keys():
        return "one"
    return (
        "several"
        if value and all(isinstance(one, dict | TargetUpdate | str) for one in value.values())
        else "one"
    )


TargetField = Annotated[
    Annotated[TargetUpdate, Tag("one")] | Annotated[dict[str, Droppable[TargetUpdate]], Tag("several")],
    Discriminator(_target_form),
]


class Adam(Declaration):
    """Adam (Kingma and Ba 2015)."""

    lr: Quantity | None = None
    eps: Quantity | None = None
    beta1: Quantity | None = None
    beta2: Quantity | None = None


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    weight_decay: Quantity | None = None


class SGD(Declaration):
    """Stochastic gradient descent."""

    lr: Quantity | None = None
    momentum: Quantity | None = None


class RMSprop(Declaration):
    """RMSprop."""

    lr: Quantity | None = None
    alpha: Quantity | None = None
    eps: Quantity | None = None


class OptimizerGroup(Declaration):
    """An optimizer: one of these, of some parameters.

    Attributes:
        of: networks, learned numbers or terms of the loss; by default all that is trained.
        every: updates between two of its steps.
        max_grad_norm: gradients are scaled down to this norm.
    """

    of: list[str] = Field(default_factory=list)
    adam: Adam | None = None
    adamw: AdamW | None = None
    sgd: SGD | None = None
    rmsprop: RMSprop | None = None
    every: Quantity | None = None
    max_grad_norm: Quantity | None = None


OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")


def _optimizer_form(value: object) -> str:
    """Which form the field has: `one`, an optimizer for all, or `several`, by name."""
    if isinstance(value, OptimizerGroup):
        return "one"
    fields = {*OPTIMIZERS, "of", "every", "max_grad_norm"}
    if not isinstance(value, dict) or fields & value.keys():
        return "one"
    return "one" if any(isinstance(number, int | float) for number in value.values()) else "several"


OptimizerField = Annotated[
    Annotated[OptimizerGroup, Tag("one")] | Annotated[dict[str, Droppable[OptimizerGroup]], Tag("several")],
    Discriminator(_optimizer_form),
]


EnvArguments = Annotated[str | dict[str, dict[str, Any]], Field(union_mode="left_to_right")]
"""The name of an environment or chain, or that with arguments of its constructor."""


class Evaluate(Declaration):
    """How the policy is evaluated.

    Attributes:
        every: frames between two evaluations.
        episodes: episodes of each.
        max_steps: steps after which an episode counts as it is.
        env: the environment, where it is not that of the pipeline.
        deterministic: whether the policy takes its likeliest action.
        of: the group of agents whose return it is that `stop` and the curve mean.
    """

    every: Quantity | None = None
    episodes: Quantity | None = None
    max_steps: Quantity | None = None
    env: EnvArguments | None = None
    deterministic: bool = True
    of: str | None = None


class Stop(Declaration):
    """When the training ends: whichever is first.

    Attributes:
        frames: environment steps, of all environments together.
        updates: steps of the optimizer. Without `frames`, everything goes by them: evaluations, checkpoints, schedules.
        hours: of training, those before a resume included.
        return_: the mean return of an evaluation (`return`).
    """

    frames: Quantity | None = None
    updates: Quantity | None = None
    hours: Quantity | None = None
    return_: Quantity | None = Field(default=None, alias="return")


class Checkpoint(Declaration):
    """What is kept of a training.

    Attributes:
        every: frames between two checkpoints; updates, where the data are recorded.
        keep: how many of the last ones.
        buffer: whether they hold the replay buffer; without it a resumed training fills a new one first.
    """

    every: Quantity | None = None
    keep: int = 2
    buffer: bool = True


class Bonus(Declaration):
    """A bonus on the reward: what a loss gives for each sample.

    Attributes:
        from_: the loss (`from`), or one of its metrics: `bonus.prediction_error`.
        coeff: what it is multiplied with; 1 by default.
        normalize: whether it is divided by the deviation of its discounted sums.
    """

    from_: str | None = Field(default=None, alias="from")
    coeff: Quantity | None = None
    normalize: bool = False


class Devices(Declaration):
    """Where the parts lie, each as torch names it; by default the CPU.

    Attributes:
        env: the environment.
        policy: the networks that act, which get the weights of those that learn, and the environment of evaluations.
        data: what was collected, until it is learned from.
        loss: the networks that learn, their losses and optimizers.
    """

    env: str | None = None
    policy: str | None = None
    data: str | None = None
    loss: str | None = None


LossField = Annotated[str | dict[str, str | dict[str, Any]], Field(union_mode="left_to_right")]
"""A loss, `DQNLoss`, or that with its arguments, `{DQNLoss: {double_dqn: true}}`; or several of these by name."""


class Pipeline(DeclaredClass):
    """An environment, networks, a loss, data and an optimizer that train together.

    Attributes:
        extends: another pipeline, whose declaration it takes over by name.
        abstract: whether it is there to be extended only, and has no module.
        env: a chain or an environment.
        params: hyper-parameters that are used twice, or want a name.
        networks: by the name of the loss's network.
        policy: who acts.
        loss: the loss, with its arguments; or several by name. One that is named like a group of agents is of that group.
        terms: the terms of the loss that are trained; by default all that it has. Those of several losses have the name of
            theirs in front.
        value_estimator: that of the losses.
        data: where they come from.
        workers: processes that collect them; by default the one that learns.
        target_updater: how target parameters follow: all of them, or by network, or by loss.
        optimizer: one for all, or several by name.
        evaluate: how the policy is evaluated.
        stop: when the training ends.
        checkpoint: what is kept of it.
        reward: bonuses that are added to the reward before values are estimated, by name.
        device: where it runs: one device, or one for each part.
        precision: of what networks compute; log-probabilities, losses and values have full precision.
        compile: whether torch compiles the loss and its gradients together, which is then a hyper-parameter.
        seed: all random numbers follow from it.
    """

    extends: str | None = None
    abstract: bool = False
    env: EnvArguments | None = None
    params: dict[str, ParamField] = Field(default_factory=dict)
    networks: dict[str, Droppable[NetworkBody]] = Field(default_factory=dict)
    policy: Acting | None = None
    loss: LossField | None = None
    terms: list[str] = Field(default_factory=list)
    value_estimator: Estimating | None = None
    data: Data | None = None
    workers: Workers | None = None
    reward: dict[str, Droppable[Bonus]] = Field(default_factory=dict)
    target_updater: TargetField | None = None
    optimizer: OptimizerField | None = None
    evaluate: Evaluate | None = None
    stop: Stop | None = None
    checkpoint: Checkpoint | None = None
    device: Annotated[str | Devices | None, Field(union_mode="left_to_right")] = None
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool | None = None
    seed: int = 0

    @property
    def is_recorded(self) -> bool:
        """Whether its data are there already."""
        return self.data is not None and self.data.recorded is not None

    @property
    def unit(self) -> Literal["frames", "updates"]:
        """What is counted: schedules, evaluations and checkpoints go by it."""
        ends_by_updates = self.stop is not None and self.stop.frames is None and self.stop.updates is not None
        return "updates" if self.is_recorded or ends_by_updates else "frames"

    @property
    def explores_by_features(self) -> bool:
        """Whether the noise of its policy is that of the distribution, linear in features, and kept for several steps."""
        explore = None if self.policy is None else self.policy.explore
        return isinstance(explore, Explore) and explore.gsde is not None
