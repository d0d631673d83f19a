"""`Autocast`: a network in a lower precision, between numbers of full precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Autocast"]


class Autocast(nn.Module):
    """Runs a network under `torch.autocast`; its parameters and what comes out are float32.

    What follows it (distributions, log-probabilities, losses) computes as if the network had full precision.

    Args:
        network: gives a tensor.
        dtype: the precision of its matrix products.

    Raises:
        ValueError: `dtype` is not of floating point.
    """

    def __init__(self, network: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        if not dtype.is_floating_point:
            raise ValueError(f"autocast is to a dtype of floating point, got {dtype}")
        self.network = network
        self.dtype = dtype

    def forward(self, *inputs: Tensor, **keywords: Any) -> Tensor:
        """The network of the inputs, as float32."""
        with torch.autocast(inputs[0].device.type, dtype=self.dtype):
            made: Tensor = self.network(*inputs, **keywords)
        return made.float()
