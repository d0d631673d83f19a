"""`hold_out_net`: networks that are read and not trained, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def hold_out_net(network: nn.Module) -> Iterator[None]:
    """Within it, no parameter of ``network`` requires gradients; gradients to its inputs flow.

    Each parameter gets back what it had before, also if some of them were frozen, or an exception is raised.
    """
    held = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)
