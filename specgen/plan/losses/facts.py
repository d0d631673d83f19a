"""What the class of a loss is like, which its template and its documentation say."""

from __future__ import annotations

from specgen.check.losses.forward import Draw, NetworkCall, Read, parts_of
from specgen.check.losses.model import CheckedLoss, LossNetwork
from specgen.expr import Type


def can_leave_networks(loss: CheckedLoss) -> bool:
    """Whether the loss can work on networks that keep their parameters: no members, and no targets unless asked for.

    The modules themselves have one mode only.
    """
    if all(network.kept for network in loss.networks):
        return False  # they are left so in any case
    asked = {param.name for param in loss.params if param.default is False}
    return not evaluated_networks(loss, "live") and all(
        network.members is None and (network.target is False or network.target in asked)
        for network in loss.networks
    )


def evaluated_networks(loss: CheckedLoss, variant: str = "") -> tuple[str, ...]:
    """The networks that are called in evaluation mode, perhaps with these parameters only."""
    parts = (part for made in loss.forward for part in parts_of(made.value))
    calls = [part for part in parts if isinstance(part, NetworkCall) and part.evaluated]
    found = {call.network for call in calls if variant in ("", call.variant)}
    return tuple(network.name for network in loss.networks if network.name in found)


def reparameterized(loss: CheckedLoss, network: LossNetwork) -> bool:
    """Whether draws of a policy need gradients."""
    drawn = (made for made in loss.forward if made.network == network.name)
    parts = (part for made in drawn for part in parts_of(made.value))
    return any(isinstance(part, Draw) and part.kind == "rsample" for part in parts)


def has_scalars(loss: CheckedLoss) -> bool:
    """Whether it returns numbers that are one for the batch."""
    return any(metric.target not in {*loss.each, *loss.by_part} for metric in loss.metrics)


def policy_of_parts(loss: CheckedLoss) -> str:
    """The policy whose action's parts metrics have numbers of; empty where none has."""
    read = (one for one in loss.forward if isinstance(one.value, Read) and one.value.function == "entropies")
    return next((one.network for one in read if loss.by_part), "")


def values_actions(loss: CheckedLoss) -> bool:
    """Whether a network gives a value for each action."""
    return any(network.action is not None for network in loss.networks)


def tensor_text(type: Type) -> str:
    """The dtype and the shape of a value, as docstrings say them."""
    dims = [*map(str, type.dims or ()), *(["1"] if type.col else [])]
    batch = ["*batch"] if type.level == "batch" else []
    return f"{type.dtype} [{', '.join([*map(str, type.axes), *batch, *dims])}]"
