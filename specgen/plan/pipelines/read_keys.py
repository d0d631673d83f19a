"""The keys that minibatches, replay buffers and recorded data hold: those that losses read of transitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specgen.check.losses.forward import Data, NetworkCall, parts_of
from specgen.check.pipelines.data_model import OnPolicyData, RecordedData, ReplayData
from specgen.check.pipelines.heads_model import (
    FeatureHead,
    ModelHead,
    PolicyHead,
    QValueHead,
    ValueHead,
    action_keys,
)
from specgen.check.pipelines.layers_model import are_recurrent, state_keys, trunks_of
from specgen.check.pipelines.model import CheckedPipeline, PipelineLoss, PipelineNetwork
from specgen.code import Code, using
from specgen.expr.printer import tuple_text
from specgen.expr.symbols import Key
from specgen.plan.spec_text import key_text

GIVEN = ("collector", "mask")
"""Says which answers of a batch were given: a conversation may be over before others."""


def stored_keys(pipeline: CheckedPipeline) -> tuple[Code, ...]:
    """The keys that the buffer, or a minibatch, holds: all that losses read of them later.

    None where data are recorded, or whole sequences of them are learned from: states of networks stand in these.
    """
    sequences = isinstance(pipeline.data, OnPolicyData) and are_recurrent(pipeline.networks)
    if isinstance(pipeline.data, RecordedData) or sequences:
        return ()
    keys = _read_later(pipeline)
    return tuple(using(key_text(key)) for key in (keys if pipeline.turns is None else (*keys, GIVEN)))


def recorded_entries(pipeline: CheckedPipeline) -> tuple[tuple[Code, Code], ...]:
    """The keys that recorded data have, each with its dtype and shape."""
    if pipeline.recorded is None:
        return ()
    known = {entry.key: entry for entry in (*pipeline.env.entries.values(), *pipeline.env.actions)}
    found: list[tuple[Code, Code]] = []
    for key in _read_later(pipeline):
        entry = known.get(key[1:] if key[0] == "next" else key)
        if entry is not None:
            shape = tuple_text(map(str, entry.stored_shape))
            found.append((using(key_text(key)), using(f"(torch.{entry.type.dtype}, {shape})", "torch")))
    return tuple(found)


def _read_later(pipeline: CheckedPipeline) -> tuple[Key, ...]:
    """What losses read of transitions; of the next records only where they read any of these."""
    found: dict[Key, None] = {}
    reading = [loss for loss in pipeline.losses if _reads_next(loss)]
    for network in pipeline.networks:
        for entry in network.layers.reads:
            if isinstance(network.head, FeatureHead):  # its loss gives it what was seen after a step
                found["next", *entry.key] = None
                continue
            found[entry.key] = None
            if entry.role != "action" and reading:
                found["next", *entry.key] = None
        if isinstance(network.head, ModelHead):
            found |= dict.fromkeys(network.head.reads_tokens)
        found |= dict.fromkeys(action_keys(network.head))
        if isinstance(network.head, PolicyHead | QValueHead):
            for mask in network.head.masks:
                found[mask] = None
                if reading:
                    found["next", *mask] = None
    for loss in pipeline.losses:
        found |= dict.fromkeys(_stored_parameters(loss))
        written, read = set(_written_before(loss)), _read_roles(loss)
        for role in loss.loss.roles:
            if role.name in loss.unread:
                continue
            if role.name in read and (role.key in written or role.key[0] == "next"):
                found[role.key] = None
            elif role.after and loss in reading:
                found["next", *role.key] = None
    if isinstance(pipeline.data, ReplayData) and pipeline.data.slice_length is not None:
        found["next", "done"] = None  # where episodes end
        found |= dict.fromkeys(_states(pipeline.networks, after=bool(reading)))
    if isinstance(pipeline.data, ReplayData) and pipeline.data.hindsight is not None:
        keys = pipeline.data.hindsight.keys
        assert keys is not None
        found |= dict.fromkeys((keys.desired, ("next", *keys.desired), ("next", *keys.achieved)))
        found |= dict.fromkeys(("next", *key) for key in (keys.reward, keys.done, keys.terminated))
    return tuple(found)


def _states(networks: Sequence[PipelineNetwork], *, after: bool) -> Iterator[Key]:
    """What recurrent networks read besides: their states, and where these begin; `after` each step, too."""
    layers = {network.name: network.layers for network in networks}
    layers |= {trunk.name: trunk.layers for trunk in trunks_of(networks)}
    keys = [key for name, one in layers.items() for key in state_keys(name, one)]
    for key in (*keys, ("is_init",)) if keys else ():
        yield key
        if after:
            yield ("next", *key)


def _written_before(loss: PipelineLoss) -> Iterator[Key]:
    """What the policy writes of its choice, and the estimator where it runs before the loss."""
    for network in loss.networks:
        if isinstance(network.head, PolicyHead) and network.head.log_prob_key is not None:
            yield network.head.log_prob_key
        elif isinstance(network.head, ModelHead):
            yield from network.head.written
        elif isinstance(network.head, ValueHead) and _estimated_before(loss):
            yield network.head.key
    yield from (role.key for role in loss.estimated)


def _stored_parameters(loss: PipelineLoss) -> Iterator[Key]:
    """Where the policies of a loss stored the parameters of their distributions, if it reads these."""
    values = [part for made in loss.loss.forward for part in parts_of(made.value)]
    read = {one.network for one in values if isinstance(one, NetworkCall) and one.variant == "stored"}
    for network in loss.networks:
        if network.role.name in read and isinstance(network.head, PolicyHead):
            for one in network.head.actions:
                yield from network.head.parameter_keys(one)
                if network.head.only is None and one.mask is not None:
                    yield (*network.head.parameters, *network.head.name_of(one), "mask")


def _reads_next(loss: PipelineLoss) -> bool:
    """Whether a loss reads next records; what is estimated before it needs none."""
    if any(role.missing == "estimate" for role in loss.loss.roles) and not _estimated_before(loss):
        return True
    values = [part for made in loss.loss.forward for part in parts_of(made.value)]
    read = _read_roles(loss) - loss.unread
    return any(role.after and role.name in read for role in loss.loss.roles) or any(
        isinstance(value, NetworkCall) and value.record == "next" for value in values
    )


def _read_roles(loss: PipelineLoss) -> set[str]:
    """The names of the roles that expressions of a loss read."""
    declared = loss.loss
    statements = (*declared.let, *declared.terms, *declared.metrics, *declared.writes, *declared.update)
    values = [part for made in declared.forward for part in parts_of(made.value)]
    read = {name for statement in statements for name in statement.reads}
    return read | {value.role for value in values if isinstance(value, Data)}


def _estimated_before(loss: PipelineLoss) -> bool:
    """Whether the estimator of a loss runs before it."""
    return loss.estimation is not None and loss.estimation.when is not None
