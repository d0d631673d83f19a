"""Samplers of replay buffers: they draw the rows of a sample."""

from __future__ import annotations

import warnings
from typing import Any, TypeAlias

import torch
from torch import Tensor

from specgen_runtime.data.storage import Storage

__all__ = ["Drawn", "RandomSampler", "Sampler", "SamplerWithoutReplacement", "refuse_empty"]

Drawn: TypeAlias = Tensor | tuple[Tensor, ...]
"""The elements of a sample: an index `[batch]`, or one for each dimension that counts elements."""


class Sampler:
    """Draws which elements of a storage are in a sample.

    A subclass writes `sample`, and draws from `self._rng`: a `torch.Generator`, or None for torch's own.
    """

    _rng: torch.Generator | None = None

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw elements.

        Args:
            storage: where they are.
            batch_size: how many.

        Returns:
            Their index, and what else there is to say of them: entries by key, with a row for each.

        Raises:
            RuntimeError: the storage is empty.
        """
        raise NotImplementedError(f"{type(self).__name__} draws nothing: write `sample`")

    def sampleable(self, storage: Storage, batch_size: int) -> int:
        """How many elements, or parts of trajectories, a sample of so many elements can be drawn from; 0 if it can't."""
        return len(storage)

    @property
    def ran_out(self) -> bool:
        """Whether all elements were drawn once; iterating over a buffer ends then. Most samplers never run out."""
        return False

    @property
    def default_priority(self) -> float:
        """The priority of elements that none was told of."""
        return 1.0

    def extend(self, index: Tensor) -> None:
        """Take notice of new elements."""

    def mark_update(self, index: Tensor, *, storage: Storage) -> None:
        """Take notice of elements whose contents are new."""

    def update_priority(
        self, index: Tensor, priority: Tensor | float, *, storage: Storage | None = None
    ) -> None:
        """Change the priority of elements: a warning, where the sampler has no priorities."""
        warnings.warn(f"{type(self).__name__} has no priorities: nothing was updated", stacklevel=2)

    def _empty(self) -> None:
        """Forget the elements."""

    def state_dict(self) -> dict[str, Any]:
        """What the sampler remembers."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember what another sampler did."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rng": None}  # generators can't be pickled

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomSampler(Sampler):
    """Draws elements uniformly, with replacement."""

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw elements; see `Sampler.sample`."""
        shape = refuse_empty(storage)
        drawn = tuple(
            torch.randint(size, (batch_size,), generator=self._rng, device=storage.device) for size in shape
        )
        return drawn[0] if storage.ndim == 1 else drawn, {}


class SamplerWithoutReplacement(Sampler):
    """Draws each element once before any is drawn again.

    The last sample of a pass may be shorter. Where the number of elements has changed, a new pass begins.

    Args:
        drop_last: whether a last sample that would be shorter is left out. The buffer needs a `batch_size` then.
        shuffle: False: in the order of the rows.
    """

    def __init__(self, drop_last: bool = False, shuffle: bool = True) -> None:
        self.drop_last = drop_last
        self.shuffle = shuffle
        self._sample_list: Tensor | None = None  # those of this pass that were not drawn yet
        self._length = 0
        self._ran_out = False

    @property
    def ran_out(self) -> bool:
        """Whether the last sample was the last of its pass."""
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw elements; see `Sampler.sample`.

        Raises:
            RuntimeError: the storage is empty.
            ValueError: with `drop_last`: there are fewer elements than a sample has.
        """
        shape = refuse_empty(storage)
        index = self._next(shape.numel(), batch_size, storage.device)
        return index if storage.ndim == 1 else torch.unravel_index(index, shape), {}

    def _next(self, length: int, batch_size: int, device: torch.device | None) -> Tensor:
        """The next numbers below `length`, of which each comes once."""
        if self.drop_last and length < batch_size:
            raise ValueError(
                f"with drop_last a sample is complete, and {length} elements don't make one of {batch_size}"
            )
        if self._sample_list is None or self._length != length:
            self._begin(length, device)
        left = self._sample_list
        assert left is not None  # a pass has begun
        left = left if device is None else left.to(device)  # a pass that was saved on another
        index, self._sample_list = left[:batch_size], left[batch_size:]
        self._ran_out = len(self._sample_list) < (batch_size if self.drop_last else 1)
        if self._ran_out:
            self._begin(length, device)
        return index

    def _begin(self, length: int, device: torch.device | None) -> None:
        self._length = length
        if self.shuffle:
            self._sample_list = torch.randperm(length, device=device, generator=self._rng)
        else:
            self._sample_list = torch.arange(length, device=device)

    def _empty(self) -> None:
        self._sample_list = None
        self._length = 0
        self._ran_out = False

    def state_dict(self) -> dict[str, Any]:
        """What is left of this pass."""
        left = None if self._sample_list is None else self._sample_list.clone()
        return {"len_storage": self._length, "_sample_list": left, "_ran_out": self._ran_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on in the pass of another sampler."""
        left = state_dict["_sample_list"]
        self._sample_list = None if left is None else left.clone()
        self._length = state_dict["len_storage"]
        self._ran_out = state_dict["_ran_out"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(drop_last={self.drop_last}, shuffle={self.shuffle})"


def refuse_empty(storage: Storage) -> torch.Size:
    """The shape of what was written.

    Raises:
        RuntimeError: nothing was.
    """
    shape = storage.shape
    if shape is None or not len(storage):
        raise RuntimeError("there is nothing to sample: the replay buffer is empty")
    return shape
