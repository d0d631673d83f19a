"""Replay buffers whose samples say which elements they consist of, so that priorities can be changed by them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor

from specgen_runtime.data.list_storages import ListStorage
from specgen_runtime.data.parts import made_part
from specgen_runtime.data.prioritized import PrioritizedSampler, reduce_priority
from specgen_runtime.data.replay_buffer import ReplayBuffer
from specgen_runtime.data.rows import RowData
from specgen_runtime.data.samplers import Sampler
from specgen_runtime.data.samples import Sample
from specgen_runtime.data.storage import Storage
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.envs.packing import put_checked
from specgen_runtime.typing import NestedKey

__all__ = ["PrioritizedReplayBuffer", "TensorDictPrioritizedReplayBuffer", "TensorDictReplayBuffer"]


class TensorDictReplayBuffer(ReplayBuffer):
    """A `ReplayBuffer` of tensordicts. Samples hold their `"index"`, and what else is known of them.

    An entry `"index"` of what comes in is not kept, so that samples can be written into another buffer.

    Args:
        priority_key: where losses write priorities.
        options: keywords of `ReplayBuffer`.
    """

    def __init__(self, *, priority_key: NestedKey = "td_error", **options: Any) -> None:
        super().__init__(**options)
        self.priority_key = priority_key

    def _check_sampler(self, sampler: Sampler) -> None:
        super()._check_sampler(sampler)
        if isinstance(sampler, PrioritizedSampler) and hasattr(self.writer, "tracks_generations"):
            self.writer.tracks_generations = True

    def extend(self, data: RowData, *, update_priority: bool = True) -> Tensor:
        """Write a batch; see `ReplayBuffer.extend`.

        Args:
            data: a tensordict, or a list of them.
            update_priority: whether its entry `priority_key` is the priority of the rows, if there is one. Otherwise
                they have the largest priority so far, so that they are sampled soon.
        """
        return self._written(self._samples.inverted(self.storage.as_batch(data)), update_priority)

    def _written(self, data: RowData | None, update_priority: bool = True) -> Tensor:
        if data is None:
            return super()._written(None)
        if not isinstance(data, TensorDictBase):
            raise TypeError(
                f"{type(self).__name__} holds tensordicts, got {type(data).__name__}: use ReplayBuffer"
            )
        index = super()._written(data.exclude("index") if data.get("index", None) is not None else data)
        priority = data.get(self.priority_key, None) if update_priority else None
        if priority is not None and isinstance(self.sampler, PrioritizedSampler):
            # Rows first, as the index is.
            reduced = self._reduced(self._rows_first(priority), self.storage.ndim)
            written = self.writer.written(index)
            if len(written) < len(index):
                reduced = reduced[(index >= 0).to(reduced.device)]
            self.sampler.update_priority(written, reduced, storage=self.storage)
        return index

    def _reduced(self, priority: Tensor, dims: int) -> Tensor:
        """One priority for each element, of priorities whose first `dims` dimensions count elements."""
        flat = priority.flatten(0, dims - 1) if dims > 1 else priority
        if flat.ndim == 1:
            return flat
        return reduce_priority(flat.flatten(1), getattr(self.sampler, "reduction", "max"))

    def update_tensordict_priority(self, data: TensorDictBase) -> None:
        """Give the elements of a sample the priorities that a loss has written; nothing without a `PrioritizedSampler`.

        Elements that were written over since they were sampled keep the priority of what they hold now.

        Args:
            data: a sample, with `"index"` and the entry `priority_key`, whose other dimensions are reduced as the sampler says.

        Raises:
            KeyError: one of the two is missing.
            ValueError: a priority is negative or not finite.
        """
        if not isinstance(self.sampler, PrioritizedSampler):
            return
        index, priority = (self._entry(data, key) for key in ("index", self.priority_key))
        if self.storage.ndim > 1:
            index = index.reshape(-1, index.shape[-1])
            priority = self._reduced(priority, data.ndim) if data.ndim else priority.reshape(1)
        else:
            index = index.reshape(len(index), -1)[:, 0] if index.ndim else index.reshape(1)
            priority = self._reduced(priority, 1) if data.ndim else priority.reshape(1)
        generation = data.get("index_generation", None)
        if generation is not None:
            generation = generation.reshape(len(index), -1)[:, 0]
            fresh = self.writer.generations_of(index) == generation
            index, priority = index[fresh], priority[fresh.to(priority.device)]
        if len(index):
            self.update_priority(index, priority)

    def _entry(self, data: TensorDictBase, key: NestedKey) -> Tensor:
        value: Tensor | None = data.get(key, None)
        if value is None:
            raise MissingKeyError(
                f"{show_key(key)} is missing: priorities are updated by what `sample` gave, with {show_key(self.priority_key)} of a loss"
            )
        return value

    def _finished(self, result: Sample) -> Any:
        data = result.data
        if not isinstance(data, TensorDictBase):
            return data
        for key, value in result.info.items():
            entry = torch.stack(value, -1) if isinstance(value, tuple) else value
            if data.device is not None:
                entry = entry.to(data.device)
            try:
                put_checked(data, key, expand_as_right(entry, data) if entry.ndim < data.ndim else entry)
            except RuntimeError as error:
                raise RuntimeError(
                    f"{show_key(key)} of shape {list(entry.shape)} does not fit the sample of {list(data.shape)}, which a "
                    "transform has changed: use ReplayBuffer, and `sample(return_info=True)`"
                ) from error
        return data


class PrioritizedReplayBuffer(ReplayBuffer):
    """A `ReplayBuffer` with a `PrioritizedSampler`.

    Args:
        alpha: as of `PrioritizedSampler`.
        beta: the same.
        eps: the same.
        dtype: the same.
        reduction: the same.
        storage: where rows are kept; None: as of `ReplayBuffer`.
        options: keywords of `ReplayBuffer`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        storage: Storage | Callable[[], Storage] | None = None,
        **options: Any,
    ) -> None:
        storage = made_part(storage, Storage, partial(ListStorage, 1000))
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, dtype, reduction)
        super().__init__(storage=storage, sampler=sampler, **options)


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """A `TensorDictReplayBuffer` with a `PrioritizedSampler`.

    Args:
        alpha: as of `PrioritizedSampler`.
        beta: the same.
        priority_key: where losses write priorities.
        eps: as of `PrioritizedSampler`.
        reduction: the same.
        storage: where rows are kept; None: as of `ReplayBuffer`.
        options: keywords of `ReplayBuffer`.
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        priority_key: NestedKey = "td_error",
        eps: float = 1e-8,
        reduction: str = "max",
        storage: Storage | Callable[[], Storage] | None = None,
        **options: Any,
    ) -> None:
        storage = made_part(storage, Storage, partial(ListStorage, 1000))
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, reduction=reduction)
        super().__init__(storage=storage, sampler=sampler, priority_key=priority_key, **options)
