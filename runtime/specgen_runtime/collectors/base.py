"""`BaseCollector`: what all collectors share, wherever their environments are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic

from specgen_runtime.collectors.arguments import Buffer, as_total, storage_dims
from specgen_runtime.collectors.policies import Weights
from specgen_runtime.collectors.trajectories import frames_in, split_trajectories
from specgen_runtime.envs.base import D

__all__ = ["BaseCollector"]


class BaseCollector(ABC, Generic[D]):
    """Gives batches of transitions until `total_frames` are collected.

    Args:
        total_frames: how many; -1 is no end.
        postproc, split_trajs, replay_buffer, post_collect_hook: see `Collector`.

    Attributes:
        frames: how many transitions were collected.
        version: how many times `update_policy_weights_` was called.
        requested_frames_per_batch: how many transitions a batch has.
        whole_episodes: whether batches are as long as their episodes.
        closed: whether it was shut down.
    """

    requested_frames_per_batch: int
    whole_episodes: bool = False

    def __init__(
        self,
        *,
        total_frames: int | None,
        postproc: Callable[[Any], Any] | None,
        split_trajs: bool | None,
        replay_buffer: Buffer | None,
        post_collect_hook: Callable[[Any], None] | None,
    ) -> None:
        self.closed = True
        self.total_frames = as_total(total_frames)
        self.postproc, self.split_trajs = postproc, bool(split_trajs)
        self.replay_buffer, self.post_collect_hook = replay_buffer, post_collect_hook
        self.frames, self.version = 0, 0
        self._iter = -1
        self._iterator: Iterator[D] | None = None

    @abstractmethod
    def _collected(self) -> Any:
        """The next batch as it was collected."""

    @abstractmethod
    def update_policy_weights_(self, policy_or_weights: Weights | None = None) -> None:
        """Give the policy new weights, and count its version."""

    @abstractmethod
    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the environments."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """What the next batches depend on."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the state dict was made."""

    @abstractmethod
    def shutdown(
        self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True
    ) -> None:
        """Close the collector."""

    def __iter__(self) -> Iterator[D]:
        """Batches until `total_frames` are collected; what fails closes the collector."""
        while self.frames < self.total_frames:
            try:
                batch = self._next_batch()
            except Exception:
                self.shutdown(raise_on_error=False)
                raise
            yield batch

    def iterator(self) -> Iterator[D]:
        """The same as `iter(collector)`."""
        return iter(self)

    def next(self) -> D | None:
        """The next batch, or None if all are collected."""
        if self._iterator is None:
            self._iterator = iter(self)
        return next(self._iterator, None)

    def __len__(self) -> int:
        """How many batches there are in all.

        Raises:
            RuntimeError: without `total_frames`.
            TypeError: with `whole_episodes`; how long episodes are shows when they are collected.
        """
        if self.total_frames == math.inf:
            raise RuntimeError("a collector without total_frames has no length")
        if self.whole_episodes:  # `list` asks for a length as a hint, and takes a TypeError for none
            raise TypeError(
                "a collector of whole episodes has no length: how long they are shows when they are collected"
            )
        return -(-int(self.total_frames) // self.requested_frames_per_batch)

    def _next_batch(self) -> Any:
        """The next batch as the collector gives it."""
        batch: Any = self._collected()
        self._iter += 1
        self.frames += frames_in(batch)
        if self.split_trajs:
            batch = split_trajectories(batch)
        if self.postproc is not None:
            batch = self.postproc(batch)
        if self.post_collect_hook is not None:
            self.post_collect_hook(batch)
        if self.replay_buffer is None:
            return batch
        whole = storage_dims(self.replay_buffer) == batch.ndim
        self.replay_buffer.extend(batch if whole else batch.reshape(-1))
        return None

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise RuntimeError(f"this {type(self).__name__} is closed")
