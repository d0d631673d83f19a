"""What networks and trunks of a pipeline are called in Python: attributes of its parts, and functions that make them."""

from __future__ import annotations

from typing import Final

from specgen.check.names import refusal, refused
from specgen.check.pipelines.layers_model import trunks_of
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import Note, Span
from specgen.diagnostics.rules import schema as rules
from specgen.pipeline_module import NAMES_IN_PIPELINES

PART_ATTRIBUTES: Final = frozenset(
    [
        *("backward", "buffer", "collector", "config", "drawing", "env", "estimator", "eval_env"),
        *("exploration", "exploring", "load_state_dict", "loss", "max_grad_norm", "multi_step"),
        *("optimizer", "policy", "recorded", "recorded_buffer", "returns", "sampler", "sampling"),
        *("shuffling", "state_dict", "stored", "updater"),
        *("device", "data_device", "env_device", "loss_device", "policy_device"),
    ]
)
"""What the parts of any pipeline may have."""

PARTS_OF_NAMED: Final = (
    "estimator",
    "exploration",
    "loss",
    "max_grad_norm",
    "optimizer",
    "reward",
    "updater",
)
"""What stands behind the name of a loss, an optimizer, a bonus, a group or a network: `actor_optimizer`."""


def check_network_names(context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> None:
    """Report networks and trunks that would be called as other parts, or as other names of the printed module.

    Args:
        context: what all readers of the pipeline are given.
        losses: the losses, with their networks.
    """
    networks = tuple(network for loss in losses for network in loss.networks)
    found = [(trunk.name, trunk.name, trunk.span) for trunk in trunks_of(networks)]
    found += [(network.attribute, network.name, network.span) for network in networks]
    pipeline = context.pipeline
    optimizers = pipeline.optimizer if isinstance(pipeline.optimizer, dict) else {}
    owners = {*optimizers, *pipeline.reward, *(loss.name for loss in losses)}
    owners |= {attribute for attribute, _, _ in found}
    parts = {f"{owner}_{part}" for owner in owners for part in PARTS_OF_NAMED}
    parts |= {f"acting_{attribute}" for attribute, _, _ in found}
    first: dict[str, tuple[str, Span]] = {}
    for attribute, name, span in found:
        reason = refusal(attribute)
        if attribute in PART_ATTRIBUTES | parts:
            reason = "another part of the pipeline is called so"
        elif attribute in NAMES_IN_PIPELINES:
            reason = "the module of a pipeline has another one"
        if reason is not None:
            context.sink.add(refused(attribute, reason, "network", span))
        elif attribute in first:
            other, before = first[attribute]
            message = f"`{name}` and `{other}` are the same name in Python"
            notes = [Note("the first one", before)]
            context.sink.add(
                rules.NAME_TAKEN.at(span, message, notes=notes, help="give one of them another name")
            )
        first.setdefault(attribute, (name, span))
