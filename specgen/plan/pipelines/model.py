"""The plan of a pipeline: what its template prints."""

from __future__ import annotations

from specgen.code import Code
from specgen.plan.model import Field, FunctionPlan, Text
from specgen.values import dataclass


@dataclass(frozen=True)
class ConfigPlan:
    """The dataclass of the hyper-parameters.

    Attributes:
        name: the class.
        fields: the hyper-parameters; all have defaults.
        checks: statements that refuse what is out of range.
    """

    name: str
    fields: tuple[Field, ...]
    checks: tuple[Text, ...]


@dataclass(frozen=True)
class StatePlan:
    """An entry of the checkpoint: what is kept, and the statement that restores it."""

    name: str
    kept: Text
    restored: Text


@dataclass(frozen=True)
class CollectorPlan:
    """The method that makes the collector: its type, and its statements."""

    type: Code
    statements: tuple[Code, ...]


@dataclass(frozen=True)
class LossPlan:
    """A loss in an update.

    Attributes:
        part: the attribute.
        variable: what it gives.
        output: the type of that.
        metrics: the fields of the metrics that come from it, each with what it is.
    """

    part: str
    variable: str
    output: str
    metrics: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class UpdatePlan:
    """What an update does, in order.

    Attributes:
        losses: the losses.
        once: the trunks that several networks stand on, which are run once for all of them.
        batch: the batch dimensions of what it is given.
        terms: their terms that are summed in each update.
        delayed_terms: those that are added in some updates only, by the hyper-parameter that says how many lie between two.
        optimizers: the attributes of the optimizers.
        configured: whether it reads hyper-parameters.
        norms: the norms of gradients that are logged, each with the statement that gives it.
        steps: the last statements, by the hyper-parameter that says how many updates lie between two; None for each.
        targets: whether targets follow.
        accumulate: the hyper-parameter that says in how many parts gradients are computed; empty for one.
        next_actions: the policies whose next actions critics of other groups read: the attribute of the loss, and its network.
        given: the key that says which rows of a batch are samples; empty where all are.
        compiled: whether torch may compile the loss.
        draws: whether the loss draws, from the part `drawing`.
    """

    losses: tuple[LossPlan, ...]
    once: tuple[str, ...]
    batch: str
    terms: tuple[Text, ...]
    delayed_terms: tuple[tuple[str, tuple[Text, ...]], ...]
    optimizers: tuple[str, ...]
    configured: bool
    norms: tuple[tuple[str, Text], ...]
    steps: tuple[tuple[str | None, tuple[Text, ...]], ...]
    targets: bool
    accumulate: str
    next_actions: tuple[tuple[str, str], ...]
    given: str
    compiled: bool
    draws: bool

    @property
    def delayed(self) -> bool:
        """Whether something happens in some updates only."""
        return bool(self.delayed_terms) or any(every is not None for every, _ in self.steps)


@dataclass(frozen=True)
class LoopPlan:
    """The loop of a training.

    Attributes:
        kind: where the data come from: `on_policy`, `replay`, `recorded`.
        unit: what is counted: `frames` or `updates`.
        total: the hyper-parameter that says how many.
        conditions: what must hold besides for it to go on, each with when it ends, in words.
        scheduled: statements that set numbers which change in training, by the counter.
        estimated: when the value estimators run before the losses: once a batch, or before each pass.
        estimators: the statements that run them on a batch.
        minibatches: the function that cuts on-policy data: into frames, or into environments with all their steps.
        order: how a function that makes minibatches is told their order.
        minibatch: how many of them an update has.
        until: the condition under which passes over a batch end, of the metrics; empty without one.
        filled: the condition under which a replay buffer is sampled.
        multi_step: whether transitions span several steps.
        prioritized: whether priorities are written after each update.
        capped: the number of steps after which an episode of an evaluation counts as it is; empty without one.
        evaluation: the name of the stream of random numbers of an evaluation.
        returns: of groups of agents, each one's name and the key of its returns.
        logged: columns of the log of episodes that ended, each with its key; empty for returns alone.
        noted: columns of the log that have means of a number of each batch, each with that number.
        measured: the group by whose evaluation parameters are judged; empty without groups.
        flat: what stands behind a batch that becomes rows of a buffer, one behind the other; empty where their order stays.
        sample: what is sampled from a buffer.
        cast: what stands behind data that come to the losses, `.to(parts.device)`; empty where they are there.
        bonuses: statements that add to the rewards of a batch.
        copies: statements that give acting networks the weights that were learned.
    """

    kind: str
    unit: str
    total: str
    conditions: tuple[tuple[str, str], ...]
    scheduled: tuple[Text, ...]
    estimated: str | None
    estimators: tuple[str, ...]
    minibatches: str
    order: Text
    minibatch: Text
    until: str
    filled: str
    multi_step: bool
    prioritized: bool
    capped: str
    evaluation: str
    returns: tuple[tuple[str, Text], ...]
    measured: str
    logged: tuple[tuple[str, Text], ...]
    noted: tuple[tuple[str, Text], ...]
    flat: str
    sample: str
    cast: str
    bonuses: tuple[str, ...]
    copies: tuple[str, ...]


@dataclass(frozen=True)
class PipelinePlan:
    """A module that trains.

    Attributes:
        name: the class of the parts.
        doc: what the pipeline is.
        config: its hyper-parameters.
        networks: the functions that make its networks.
        stored: the keys that the buffer, or a minibatch, holds; empty where data are recorded.
        recorded: the keys that recorded data have, each with its dtype and shape.
        devices: statements that find the devices, before anything is made.
        parts: statements that make the parts, in order.
        collector: what makes the collector; None where data are recorded.
        state: what a checkpoint holds.
        buffers: parts that are dumped beside the checkpoint.
        may_change: hyper-parameters that a resumed training may change.
        update: what an update does.
        loop: the loop.
        keep: how many checkpoints are kept.
        folder: where a training is kept by default.
        module: the dotted module, which `python -m` runs.
        imported: whether classes of users import the module by its name, which is then not the one that `python -m` runs.
        simulated: whether a simulator is behind the environment, whose episodes no checkpoint holds.
        reproducible: whether the same seed gives the same training.
        uses: the names of its module that the template reads.
    """

    name: str
    doc: tuple[str, ...]
    config: ConfigPlan
    networks: tuple[FunctionPlan, ...]
    stored: tuple[Text, ...]
    recorded: tuple[tuple[Text, Text], ...]
    devices: tuple[Text, ...]
    parts: tuple[Text, ...]
    collector: CollectorPlan | None
    state: tuple[StatePlan, ...]
    buffers: tuple[str, ...]
    may_change: tuple[str, ...]
    update: UpdatePlan
    loop: LoopPlan
    keep: int
    folder: str
    module: str
    imported: bool
    simulated: bool
    reproducible: bool
    deterministic: bool
    uses: Code
