"""Recurrent networks of a pipeline: whether they learn from sequences, and whether their state is carried."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, ReplayData
from specgen.check.pipelines.heads_model import PolicyHead
from specgen.check.pipelines.layers_model import Layers
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import Acting, PipelineLoss
from specgen.check.pipelines.numbers import nearest_divisor
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import Note, Rule, Sink
from specgen.diagnostics.rules import pipeline_networks as rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.schema.load import SchemaFile


def check_sequences(
    context: PipelineContext, losses: tuple[PipelineLoss, ...], acting: Acting, data: PipelineData
) -> None:
    """Report recurrent layers of a pipeline that learn from single steps, or whose state nobody writes.

    Args:
        context: what all readers of the pipeline are given.
        losses: its losses with their networks.
        acting: who acts.
        data: where the data come from.
    """
    file, path, sink = context.file, context.path, context.sink
    _check_dropout(file, path, losses, sink)
    found = dict(_recurrent(losses))
    carried = {name for network in acting.networks for name, _ in _of(network.name, network.layers)}
    for name, layers in found.items():
        assert layers.recurrence is not None
        span = file.key_span(*path, "networks", name, layers.recurrence.kind)
        if name not in carried:
            who = " and ".join(f"`{network.name}`" for network in acting.networks)
            message = f"{who} acts without `{name}`, so that nobody writes its state while data are collected"
            help = f"let both stand on one: `memory: {{{layers.recurrence.kind}: 64}}`, `{acting.networks[0].name}: {{trunk: memory}}`"
            sink.add(rules.STATE.at(span, message, help=help))
    if not found:
        return
    name, layers = next(iter(found.items()))
    assert layers.recurrence is not None
    notes = [Note("the recurrent layer", file.key_span(*path, "networks", name, layers.recurrence.kind))]
    if isinstance(data, OnPolicyData):
        _check_columns(data, name, notes, sink)
    elif not isinstance(data, ReplayData) or data.sampler != "slices":
        message = f"`{name}` learns from sequences, and these data are single steps"
        help = "draw slices of episodes: `replay: {sampler: {slices: {length: 16}}}`"
        if any(map(is_on_policy, losses)):
            help = "write `on_policy: {num_envs: 16, num_steps: 64, minibatches: 4}`"
        sink.add(rules.SEQUENCES.at(file.key_span(*path, "data"), message, notes=notes, help=help))


def _check_columns(data: OnPolicyData, name: str, notes: list[Note], sink: Sink) -> None:
    """Report batches of single steps, and minibatches that tear environments apart."""
    steps = int(data.num_steps.default)
    if steps == 1:
        message = f"`{name}` learns from sequences, and a batch has 1 step of each environment"
        sink.add(rules.SEQUENCES.at(data.num_steps.span, message, notes=notes, help="write `num_steps: 64`"))
        return
    check_whole_rows(
        data, f"the {steps} steps of an environment", "environments", rules.SEQUENCES, notes, sink
    )


def check_whole_rows(
    data: OnPolicyData, torn: str, rows: str, rule: Rule, notes: list[Note], sink: Sink
) -> None:
    """Report minibatches that tear environments apart, or that the environments are no multiple of.

    Args:
        data: whose minibatches are of environments with all their steps.
        torn: what a minibatch of another size tears apart, in words.
        rows: what it is of, in words.
        rule: of which that is a mistake.
        notes: what belongs to it.
        sink: takes the mistake.
    """
    envs, steps = int(data.num_envs.default), int(data.num_steps.default)
    size, count = data.minibatch_size, data.minibatches
    near = 1 if size is None else nearest_divisor(envs, size.default / steps)
    help = f"write {near * steps}, {near} of the {envs} {rows}"
    said = size or count
    for item in sink.items:  # what divides rows divides frames: that they don't is the same mistake
        if said is not None and item.span == said.span and item.code == number_rules.DOES_NOT_FIT.code:
            sink.remove(item)
    if size is not None and size.default % steps:
        message = f"minibatches of {size.default} frames tear {torn} apart"
        sink.add(rule.at(size.span, message, notes=notes, help=help))
    elif size is not None and envs % (size.default // steps):
        message = f"minibatches of {size.default // steps} {rows} do not divide num_envs = {envs}"
        sink.add(number_rules.DOES_NOT_FIT.at(size.span, message, notes=notes, help=help))
    elif count is not None and envs % count.default:
        message = f"{count.default} minibatches of whole {rows} do not divide num_envs = {envs}"
        near = nearest_divisor(envs, count.default)
        sink.add(number_rules.DOES_NOT_FIT.at(count.span, message, notes=notes, help=f"write {near}"))


def _recurrent(losses: tuple[PipelineLoss, ...]) -> Iterator[tuple[str, Layers]]:
    """The networks and trunks with a recurrent layer, by name."""
    for loss in losses:
        for network in loss.networks:
            for name, layers in _of(network.name, network.layers):
                if layers.recurrence is not None:
                    yield name, layers


def _of(name: str, layers: Layers) -> Iterator[tuple[str, Layers]]:
    """The layers of the trunks that a network stands on, and its own, by name."""
    for trunk in layers.trunks:
        yield trunk.name, trunk.layers
    yield name, layers


def _check_dropout(
    file: SchemaFile, path: tuple[str, ...], losses: tuple[PipelineLoss, ...], sink: Sink
) -> None:
    """Report policies with dropout whose actions are weighed by their log-probability."""
    for loss in losses:
        if not is_on_policy(loss):
            continue
        for network in loss.networks:
            if not isinstance(network.head, PolicyHead):
                continue
            for name, layers in _of(network.name, network.layers):
                if layers.dropout is not None and layers.dropout.default > 0:
                    span = file.key_span(*path, "networks", name, "dropout")
                    message = f"`{loss.loss.name}` weighs actions by their log-probability, and `{name}` is another network at each call"
                    notes = [Note("the loss", loss.span)]
                    sink.add(rules.DROPOUT.at(span, message, notes=notes, help="leave it out"))
