"""`hold_out_net`, `hold_out_params`: networks and parameters that are read and not trained, for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tensordict import TensorDictBase
from torch import Tensor, nn


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


@contextmanager
def hold_out_params(
    params: TensorDictBase | Iterable[Tensor],
) -> Iterator[TensorDictBase | tuple[Tensor, ...]]:
    """Gives the parameters without gradients: of a tensordict one, such as for `params.to_module`, else a tuple of tensors.

    The parameters themselves stay as they are.
    """
    yield params.detach() if isinstance(params, TensorDictBase) else tuple(one.detach() for one in params)
