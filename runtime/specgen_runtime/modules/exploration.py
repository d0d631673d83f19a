"""What exploration modules share: when they explore, and how their strength falls."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType
from tensordict.nn.probabilistic import interaction_type
from torch import Tensor

from specgen_runtime.typing import NestedKey


def explores() -> bool:
    """Whether modules explore: where the exploration type is RANDOM, or not set."""
    return interaction_type() in (InteractionType.RANDOM, None)


def fall(value: Tensor, first: Tensor, last: Tensor, num_steps: int, frames: int) -> None:
    """Lower a value in place along the line from `first` to `last`, and no further.

    Args:
        value: what it is now.
        first: what it was at first.
        last: what it is after `num_steps`.
        num_steps: how many frames the line has.
        frames: how many of them to go.

    Raises:
        ValueError: `frames` is negative.
    """
    if frames < 0:
        raise ValueError(f"frames must not be negative, got {frames}")
    value.copy_(torch.maximum(last, value - frames * ((first - last) / num_steps)))


def action_batch(tensordict: TensorDictBase, action_key: NestedKey) -> torch.Size:
    """The batch of the tensordict that holds the action, nested or not."""
    nested = isinstance(action_key, tuple) and len(action_key) > 1
    return torch.Size((tensordict.get(action_key[:-1]) if nested else tensordict).shape)
