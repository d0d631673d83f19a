"""What exploration modules share: when they explore, what they draw from, and how their strength is set."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from numbers import Real
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType
from tensordict.nn.probabilistic import interaction_type
from torch import Tensor, nn

from specgen_runtime.random_state import drawing_from
from specgen_runtime.typing import NestedKey


def explores() -> bool:
    """Whether modules explore: where the exploration type is RANDOM, or not set."""
    kind = interaction_type()
    return kind is None or kind is InteractionType.RANDOM


def checked_generator(generator: object) -> torch.Generator | None:
    """The generator that a module is given.

    Raises:
        TypeError: it is neither a generator nor None.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    raise TypeError(f"generator must be a torch.Generator or None, got {type(generator).__name__}")


def draws_for(
    generator: torch.Generator | None, device: torch.device | None, owner: str
) -> AbstractContextManager[None]:
    """Let everything inside draw from a generator; nothing changes with None.

    Args:
        generator: of a module.
        device: where it draws; None if that is not known.
        owner: the module, for the message.

    Raises:
        RuntimeError: the generator is on another device.
    """
    if generator is not None and device is not None and generator.device != device:
        raise RuntimeError(
            f"{owner} draws on {device}, but its generator is on {generator.device}; set `generator` to one of that"
            f" device, such as torch.Generator({str(device)!r})"
        )
    return drawing_from(generator)


class ExplorationNumbers(nn.Module):
    """A module that explores: its buffers of one number are set as numbers, `module.eps = 0.3`.

    A number is written into the buffer, so that the state dict has it and it stays on its device.

    Attributes:
        generator: what it draws from, on the device where it draws; None for torch's default. `to` leaves it where it
            is, and the state dict lacks it.
    """

    generator: torch.Generator | None
    _fractions: ClassVar[frozenset[str]] = frozenset()
    """Names of buffers whose number is within [0, 1]."""

    def __setattr__(self, name: str, value: Any) -> None:
        buffer = vars(self).get("_buffers", {}).get(name) if isinstance(value, Real) else None
        if buffer is not None:
            number = float(value)
            if name in self._fractions and not 0.0 <= number <= 1.0:
                raise ValueError(f"{name} must be within [0, 1], got {number}")
            buffer.fill_(number)
            return
        given: Any = checked_generator(value) if name == "generator" else value
        super().__setattr__(name, given)


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


def episodes_begin(
    tensordict: TensorDictBase, is_init_key: NestedKey, batch: torch.Size, owner: str
) -> Tensor | None:
    """Where an episode begins, bool of the batch of the action; None, with a warning, where nobody says it.

    Args:
        tensordict: of a step.
        is_init_key: of what `InitTracker` writes, `(*batch, 1)` or `(*batch,)`.
        batch: that of the action.
        owner: the module, for messages.

    Raises:
        ValueError: what is there does not fit the batch.
    """
    begins: Tensor | None = tensordict.get(is_init_key, None)
    if begins is None:
        warnings.warn(
            f"{owner} finds no {is_init_key!r}, so the noise goes on from one episode to the next; the transform"
            " InitTracker writes it",
            stacklevel=5,
        )
        return None
    shape = tuple(begins.shape)
    if begins.ndim > len(tensordict.batch_size) and shape[-1] == 1:
        begins = begins.squeeze(-1)
    if begins.ndim > len(batch):
        begins = begins.flatten(len(batch)).any(-1)
    if begins.shape != batch[: begins.ndim]:
        raise ValueError(f"{is_init_key!r} of shape {shape} does not fit actions of the batch {tuple(batch)}")
    return begins.reshape(begins.shape + (1,) * (len(batch) - begins.ndim)).expand(batch)
