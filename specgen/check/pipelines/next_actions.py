"""What agents do next, for critics that read actions: those of other groups follow from the policies of these."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import Entry
from specgen.check.pipelines.heads_model import PolicyHead, QValueHead, ValueHead
from specgen.check.pipelines.model import NextAction, PipelineLoss, PipelineNetwork
from specgen.diagnostics import Diagnostic, Note, Sink
from specgen.diagnostics.rules import pipeline_groups as rules


def next_actions(losses: tuple[PipelineLoss, ...], sink: Sink) -> tuple[NextAction, ...]:
    """The policies whose next actions critics of other groups read; actions that nobody knows then are reported."""
    found: dict[NextAction, None] = {}
    for loss in losses:
        for network, action in _read(loss):
            if isinstance(network.head, PolicyHead | QValueHead) or "action" not in network.role.inputs:
                sink.add(_unknown(loss, network, action))
                continue
            if loss.group is None or action.key[0] == loss.group.name:
                continue
            other = next(one for one in losses if one.group is not None and one.group.name == action.key[0])
            policy = next((one for one in other.networks if isinstance(one.head, PolicyHead)), None)
            if policy is None or not (isinstance(policy.head, PolicyHead) and policy.head.certain):
                sink.add(_drawn(network, action, other))
            else:
                found[NextAction(other.part("loss"), policy.role.name)] = None
    return tuple(found)


def _read(loss: PipelineLoss) -> Iterator[tuple[PipelineNetwork, Entry]]:
    """The actions that policies and critics of a loss read."""
    for network in loss.networks:
        if isinstance(network.head, PolicyHead | QValueHead | ValueHead):
            for entry in network.layers.reads:
                if entry.role == "action":
                    yield network, entry


def _unknown(loss: PipelineLoss, network: PipelineNetwork, action: Entry) -> Diagnostic:
    policies = [one for one in loss.networks if isinstance(one.head, PolicyHead)]
    message = (
        f"`{network.name}` values states, the next one before anybody acts there, and reads `{action.dotted}`"
    )
    if network in policies or (isinstance(network.head, QValueHead) and not policies):
        message = f"`{network.name}` reads `{action.dotted}`, which nobody has done when it acts"
    below = next((one for one in network.layers.trunks if action in one.layers.inputs), None)
    if below is None:
        return rules.NEXT_ACTIONS.at(network.span, message, help="leave it out of `in`")
    notes, help = [Note("its trunk reads it", below.span)], f"leave it out of `in` of `{below.name}`"
    return rules.NEXT_ACTIONS.at(network.span, message, notes=notes, help=help)


def _drawn(network: PipelineNetwork, action: Entry, other: PipelineLoss) -> Diagnostic:
    message = f"`{network.name}` reads `{action.dotted}`, and `{other.loss.name}` draws what is done next"
    listed = [one.dotted for one in network.layers.reads if one != action]
    help = f"take a loss with a deterministic policy, `DDPGLoss`, `TD3Loss`; or write `in: [{', '.join(listed)}]`"
    return rules.NEXT_ACTIONS.at(network.span, message, notes=[Note("the loss", other.span)], help=help)
