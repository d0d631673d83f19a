"""`IndexedBatch`: batches of which some environments can be taken by index, and `BatchView`, these as a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.attributes import refuse_params
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.envs.batched.pool import Pool

__all__ = ["BatchView", "IndexedBatch"]


class IndexedBatch(BatchedEnv[D]):
    """A batch that can be indexed."""

    def __getitem__(self, item: Any) -> BatchView[D]:
        """Some of the environments, as a batch of their own that steps and resets no others; starts them.

        Args:
            item: an integer, for a batch of one; a slice; or integers in a list or tensor. Negative ones count from the end.

        Raises:
            IndexError: there is no such environment, or none is taken.
            TypeError: not an index of these kinds.
            ValueError: an environment is taken twice.
        """
        return BatchView(self, indices_of(item, self.num_workers))


class BatchView(IndexedBatch[D]):
    """Some environments of a batch, which remain its own: what steps here has stepped there.

    Closing it closes none of them; where the batch is closed and begins anew, so does this.

    Args:
        whole: the batch.
        indices: which of its environments, in their order here.
    """

    def __init__(self, whole: BatchedEnv[D], indices: Sequence[int]) -> None:
        super().__init__(
            len(indices),
            [whole.create_env_fn[index] for index in indices],
            create_env_kwargs=[whole.create_env_kwargs[index] for index in indices],
            pin_memory=False,
            share_individual_td=whole._wanted_lazy,
            policy_proof=None,
            device=whole._device if whole._own_device else None,
            allow_step_when_done=False,
            non_blocking=whole.non_blocking,
        )
        # In a dict: nn.Module would register the batch as a part of this.
        self.__dict__["_whole"], self._indices = whole, list(indices)
        whole._live()
        self._take_specs([whole._descriptions[index] for index in indices])

    def _open(self) -> Pool:
        return _PoolView(self.__dict__["_whole"], self._indices)

    def _live(self) -> Pool:
        if self._pool is not None and self._pool.closed:
            self._forget_pool()
        self._last.take()  # others may have stepped the environments since
        return super()._live()

    def __setattr__(self, name: str, value: Any) -> None:
        maker: Any = self
        while "_whole" in maker.__dict__:  # a view has no keywords that make environments
            maker = maker.__dict__["_whole"]
        refuse_params(name, type(maker).__name__)
        super().__setattr__(name, value)

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Not of a view.

        Raises:
            RuntimeError: always: the batch itself makes the environments.
        """
        raise RuntimeError("environments are made by their batch: call its update_kwargs")


class _PoolView(Pool):
    """Some environments of a pool. Commands go through the batch that has it, which forgets what they last gave."""

    def __init__(self, whole: BatchedEnv[Any], indices: Sequence[int]) -> None:
        self.count = len(indices)
        self._whole, self._indices = whole, list(indices)
        self._pool = whole._live()

    def run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Give a command to some environments, and wait for their answers."""
        given = {self._indices[place]: argument for place, argument in arguments.items()}
        answers = self._whole._run(command, given)
        self._whole._last.take()
        return {place: answers[self._indices[place]] for place in arguments}

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether the environments are gone, or others took their place."""
        return self._pool.closed or self._whole._pool is not self._pool

    def close(self, timeout: float) -> None:
        """Nothing: they are the batch's."""


def indices_of(item: Any, count: int) -> list[int]:
    """The indices that an index means; raises as `IndexedBatch.__getitem__` does."""
    if isinstance(item, slice):
        found = list(range(count))[item]
    else:
        try:
            index = torch.as_tensor(item)
        except (TypeError, ValueError, RuntimeError):
            index = torch.ones(1)
        whole = not (index.dtype is torch.bool or index.is_floating_point() or index.is_complex())
        if index.numel() and (index.ndim > 1 or not whole):
            raise TypeError(f"environments are taken by integers or a slice, not by {item!r}")
        found = [int(one) for one in index.reshape(-1).tolist()]
    wrong = [one for one in found if not -count <= one < count]
    if wrong or not found:
        what = f"environment {wrong[0]}" if wrong else "none"
        raise IndexError(f"{what} of {count} environments")
    places = [one % count for one in found]
    if len(set(places)) < len(places):
        raise ValueError(f"an environment is taken twice: {found}")
    return places
