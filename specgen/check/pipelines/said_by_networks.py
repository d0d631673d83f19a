"""Arguments that other libraries have for a loss, and that are a matter of its networks."""

from __future__ import annotations

from typing import Final

from specgen.check.losses.model import CheckedLoss

_OF_SUPPORTS: Final = ("support", "atoms", "v_min", "v_max")
_OF_COUNTS: Final = ("n_", "num_")


def said_by_network(loss: CheckedLoss, argument: str) -> str | None:
    """What to write in the place of an argument that a network of the loss says; None where none does."""
    for network in loss.networks:
        if "support" in network.buffers and argument in _OF_SUPPORTS:
            return f"the network says it: `{network.name}: {{support: {{atoms: 51, low: 0, high: 100}}}}`"
        for size in () if network.policy else network.value.sizes:
            if str(size) in (argument, *(argument.removeprefix(prefix) for prefix in _OF_COUNTS)):
                return f"the network says it: `{network.name}: {{out: {{{size}: 64}}}}`"
    return None
