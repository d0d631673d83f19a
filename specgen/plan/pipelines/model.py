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
class UpdatePlan:
    """What an update does, in order.

    Attributes:
        terms: the terms of the loss that are summed in each update.
        delayed_terms: those that are added in some updates only, by the hyper-parameter that says how many lie between two.
        optimizers: the attributes of the optimizers.
        norms: the norms of gradients that are logged, each with the statement that gives it.
        steps: the last statements, by the hyper-parameter that says how many updates lie between two; None for each.
        targets: whether targets follow.
    """

    terms: tuple[str, ...]
    delayed_terms: tuple[tuple[str, tuple[str, ...]], ...]
    optimizers: tuple[str, ...]
    norms: tuple[tuple[str, Text], ...]
    steps: tuple[tuple[str | None, tuple[Text, ...]], ...]
    targets: bool

    @property
    def delayed(self) -> bool:
        """Whether something happens in some updates only."""
        return bool(self.delayed_terms) or any(every is not None for every, _ in self.steps)

    @property
    def configured(self) -> bool:
        """Whether it reads hyper-parameters."""
        return self.delayed or bool(self.norms)


@dataclass(frozen=True)
class LoopPlan:
    """The loop of a training.

    Attributes:
        kind: where the data come from: `on_policy`, `replay`, `recorded`.
        unit: what is counted: `frames` or `updates`.
        total: the hyper-parameter that says how many.
        stop_return: whether an evaluation may end it.
        scheduled: statements that set numbers which change in training, by the counter.
        estimated: when the value estimator runs before the loss: once a batch, or before each pass.
        minibatch: the frames of an update, of on-policy data.
        warm_up: whether updates wait for the first frames.
        updates: whether there may be several updates for each batch.
        multi_step: whether transitions span several steps.
        prioritized: whether priorities are written after each update.
        evaluation: the name of the stream of random numbers of an evaluation.
        logged: further keyword arguments of the log.
    """

    kind: str
    unit: str
    total: str
    stop_return: bool
    scheduled: tuple[Text, ...]
    estimated: str | None
    minibatch: Text
    warm_up: bool
    updates: bool
    multi_step: bool
    prioritized: bool
    evaluation: str
    logged: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PipelinePlan:
    """A module that trains.

    Attributes:
        name: the class of the parts.
        doc: what the pipeline is.
        config: its hyper-parameters.
        networks: the functions that make its networks.
        stored: the keys that the buffer keeps; empty where nothing is stored.
        recorded: the keys that recorded data have, each with its dtype and shape.
        parts: statements that make the parts, in order.
        state: what a checkpoint holds.
        buffers: parts that are dumped beside the checkpoint.
        may_change: hyper-parameters that a resumed training may change.
        metrics: fields of the metrics that come from the loss.
        update: what an update does.
        loop: the loop.
        keep: how many checkpoints are kept.
        folder: where a training is kept by default.
        module: the dotted module, for the documentation of the command line.
        uses: the names of its module that the template reads.
    """

    name: str
    doc: tuple[str, ...]
    config: ConfigPlan
    networks: tuple[FunctionPlan, ...]
    stored: tuple[Text, ...]
    recorded: tuple[tuple[Text, Text], ...]
    parts: tuple[Text, ...]
    state: tuple[StatePlan, ...]
    buffers: tuple[str, ...]
    may_change: tuple[str, ...]
    metrics: tuple[str, ...]
    update: UpdatePlan
    loop: LoopPlan
    keep: int
    folder: str
    module: str
    deterministic: bool
    uses: Code
