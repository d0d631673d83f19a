"""Functions of what a loss computes, in its expressions: a network that reads it, a distribution that scores it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.losses.builtins import which_member
from specgen.check.losses.forward import Forward, NetworkBuffer
from specgen.check.losses.model import LossNetwork
from specgen.check.losses.values import ForwardValues
from specgen.check.network_types import called_network, network_node
from specgen.diagnostics.rules import losses as rules
from specgen.expr import Type, Typed
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.site import Site


def network_function(made: Forward, roles: Mapping[str, Type | None]) -> Builtin:
    """How expressions call a network that reads what they compute: one argument for each role."""
    return called_network(made.name, made.replaced, "", lambda site: _infer(site, made, roles))


def network_buffers(
    path: tuple[str, ...], networks: Iterable[LossNetwork], values: ForwardValues
) -> list[Forward]:
    """The buffers of networks among the values of the class."""
    return [
        values.add(
            name,
            NetworkBuffer(one.name, name, type),
            ".".join((*path, "networks", one.name, "buffers", name)),
        )
        for one in networks
        for name, type in one.buffers.items()
    ]


def _infer(site: Site, made: Forward, roles: Mapping[str, Type | None]) -> Typed | None:
    for value, name in zip(site.values, made.replaced, strict=True):
        kind, wanted = value.type, roles[name]
        if kind.level != "batch":
            message = f"`{name}` is one value per sample, `{site.written(value)}` is the same for all"
            site.fail(rules.NETWORK_CALL, message, at=value)
            return None
        if kind.axes:
            message = f"`{name}` is one value per sample, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALL, message, at=value, help=which_member(value))
            return None
        if wanted is not None and (kind.dtype, len(kind.dims)) != (wanted.dtype, len(wanted.dims)):
            message = f"`{made.network}` reads {wanted} as `{name}`, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALL, message, at=value)
            return None
    return network_node(site, made.symbol, made.type)
