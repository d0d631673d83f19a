"""Who writes what in a pipeline, in the order of time, and whether what is read was written before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from specgen.check.losses.model import LossRole
from specgen.check.model import dotted
from specgen.check.pipelines.data_model import PipelineData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import ModelHead, PolicyHead, QValueHead, ValueHead
from specgen.check.pipelines.loss_conditions import LossConditions
from specgen.check.pipelines.model import PipelineLoss, PipelineNetwork
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import pipelines as rules
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.values import dataclass

When = Literal["reset", "act", "step", "sample", "estimate", "loss"]


@dataclass(frozen=True)
class Written:
    """An entry of the data: when it is written, and by whom.

    Attributes:
        key: the dotted key; behind the step with `next.`.
        when: the moment of training.
        by: who, as messages say it.
        type: its type for one row, where that is known here.
        span: where the pipeline names who writes it.
    """

    key: str
    when: When
    by: str
    type: Type | None = None
    span: Span | None = None


def written(
    env: PipelineEnv,
    acting: tuple[PipelineNetwork, ...],
    losses: tuple[PipelineLoss, ...],
    data: PipelineData,
) -> Iterator[Written]:
    """Everything that is written before the losses read, in order."""
    for entry in env.entries.values():
        if entry.role != "reward":
            yield Written(entry.dotted, "reset", f"`{env.name}`", entry.type, env.span)
    for network in acting:
        for key in _of_network(network):
            yield Written(dotted(key), "act", f"the policy `{network.name}`", span=network.span)
    for entry in env.entries.values():
        yield Written(f"next.{entry.dotted}", "step", f"`{env.name}`", entry.type, env.span)
    if isinstance(data, ReplayData):
        yield Written("index", "sample", "the buffer")
        if data.sampler == "prioritized":
            yield Written("priority_weight", "sample", "the sampler")
        if data.n_step is not None:
            yield Written("steps_to_next_obs", "sample", "the sum over several steps")
    for loss in losses:
        estimation = loss.estimation
        if estimation is None or estimation.when is None:
            continue
        for role in loss.estimated:
            yield Written(dotted(role.key), "estimate", f"the estimator `{estimation.kind}`")
        for network in loss.networks:
            if isinstance(network.head, ValueHead):
                yield Written(dotted(network.head.key), "estimate", f"the estimator `{estimation.kind}`")


def _of_network(network: PipelineNetwork) -> Iterator[Key]:
    """What a network writes when it acts."""
    match network.head:
        case PolicyHead(actions, key, log_prob_key=log_prob) as head:
            for one in actions:
                yield from head.parameter_keys(one)
                yield one.action.key
            if len(actions) > 1:
                yield key
            if log_prob is not None:
                yield log_prob
        case QValueHead(action, distribution=distribution):
            yield from ((*action.key[:-1], "action_value"), action.key)
            if distribution is None:
                yield (*action.key[:-1], "chosen_action_value")
        case ModelHead(written=keys):
            yield from keys
        case ValueHead(key):
            yield key


def check_reads(
    loss: PipelineLoss,
    conditions: LossConditions,
    rows: tuple[Written, ...],
    env: PipelineEnv,
    sink: Sink,
    *,
    estimating: bool,
) -> None:
    """Report what the loss reads and nobody wrote before, and who dropped it.

    Args:
        loss: the loss.
        conditions: what its conditions are.
        rows: what is written, in the order of time.
        env: the environment, whose transforms may drop keys.
        sink: takes every mistake.
        estimating: whether the pipeline says an estimator, which is reported where the loss has none.
    """
    known = {row.key for row in rows}
    outputs = {name for network in loss.loss.networks for name, _ in network.outputs}
    estimated = estimated_help(loss)
    for role in loss.loss.roles:
        key = f"next.{dotted(role.key)}" if role.after else dotted(role.key)
        if not _is_read(role, outputs, conditions) or key in known:
            continue
        if role.missing == "estimate":
            continue  # the loss calls its estimator
        if estimated is not None and key in _ESTIMATED:
            if not estimating:  # else the estimator is reported, with the same remedy for all of them
                names = " and ".join(
                    f"`{one}`" for one in _ESTIMATED if one in {dotted(r.key) for r in loss.loss.roles}
                )
                message = f"`{loss.loss.name}` reads {names}, and nobody writes them before"
                sink.add(rules.NO_WRITER.at(loss.span, message, help=estimated))
            continue
        message = f"`{loss.loss.name}` reads `{key}`{_doc(role)}, and nobody writes it before"
        notes: list[Note] = []
        if dotted(role.key) in env.dropped:
            notes.append(Note(f"{env.dropped[dotted(role.key)]}, drops it", env.span))
        sink.add(rules.NO_WRITER.at(loss.span, message, notes=notes, help=_help(role, key, known)))


_ESTIMATED = ("advantage", "value_target")
"""What estimators of advantages write."""


def estimated_help(loss: PipelineLoss) -> str | None:
    """How a loss says that an estimator writes the advantages that it reads; None if it reads none, or values no states."""
    read = [role.name for role in loss.loss.roles if dotted(role.key) in _ESTIMATED]
    critics = [network.role.name for network in loss.networks if isinstance(network.head, ValueHead)]
    if not read or not critics:
        return None
    names = " and ".join(f"`{name}`" for name in read)
    estimator = f"value_estimator: {{default: gae, supports: all, network: {critics[0]}}}"
    return f"let `{loss.loss.name}` declare `{estimator}`, and say `missing: estimate` of its keys {names}"


def _is_read(role: LossRole, outputs: set[str], conditions: LossConditions) -> bool:
    """Whether the loss needs what stands under a role."""
    if role.name in outputs or role.optional or isinstance(role.missing, int | float):
        return False
    return role.type is not None and conditions.holds(role.when)


def _doc(role: LossRole) -> str:
    return f", {role.doc.split(';')[0].rstrip('.')}" if role.doc else ""


def _help(role: LossRole, key: str, known: set[str]) -> str | None:
    if "tokens.full" in known and key == "next.teacher_log_probs.full":
        return "put `RetrieveLogProb: {model: …, log_probs_full_key: teacher_log_probs.full}` into the chain"
    if "tokens.full" in known and key.startswith("next."):
        return suggestion(key, known) or "put `RetrieveKL: {gen_model: …, ref_model: …}` into the chain"
    if "tokens.full" in known and role.name == "sample_log_prob":
        return "leave out `log_probs_key` of the model that acts"
    if role.name == "sample_log_prob":
        return "let the policy be a distribution: `dist: tanh_normal`, `dist: categorical`"
    if role.name in ("terminated", "done") or role.after:
        return suggestion(key, known) or "it is the environment that writes it"
    return suggestion(key, known)
