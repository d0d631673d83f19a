"""Draws of choices that carry gradients to the probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch
from torch import Tensor
from torch.distributions import RelaxedOneHotCategorical

from specgen_runtime.modules.distributions.categorical import one_hot


class ReparamGradientStrategy(Enum):
    """How draws of one-hot choices depend on the probabilities."""

    PassThrough = 1
    """The draw of the forward pass, the gradient of the probabilities (Bengio et al. 2013, straight-through)."""

    RelaxedOneHot = 2
    """The greatest of a Gumbel-softmax with temperature 1, whose gradient is kept (Jang et al. 2017)."""


def relaxed_choice(logits: Tensor, sample_shape: Sequence[int]) -> Tensor:
    """One-hot draws with the gradient of a Gumbel-softmax of temperature 1.

    Args:
        logits: shape ``(*batch, n)``.
        sample_shape: leading dimensions of the draws.

    Returns:
        Shape ``(*sample_shape, *batch, n)``, in the dtype of the logits.
    """
    relaxed: Tensor = RelaxedOneHotCategorical(
        torch.ones_like(logits[..., :1]), logits=logits, validate_args=False
    ).rsample(torch.Size(sample_shape))
    chosen = one_hot(relaxed.argmax(-1), relaxed.shape[-1], relaxed.dtype)
    return relaxed + (chosen - relaxed).detach()
