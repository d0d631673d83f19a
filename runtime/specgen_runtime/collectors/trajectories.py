"""The numbers of trajectories in collected batches, and batches split by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import D
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.keys import MASK_KEY, TRAJECTORY_KEY, as_tuple
from specgen_runtime.envs.packing import peek
from specgen_runtime.typing import NestedKey

__all__ = ["TrajectoryNumbers", "ended", "frames_in", "in_first_episodes", "lengthened", "split_trajectories"]


class TrajectoryNumbers:
    """Numbers the trajectories of a batch of environments: 0, 1, 2 and so on, in the order in which they begin.

    Trajectories that begin at the same step are numbered in the order of the environments. Of several collectors each
    takes every `stride`-th number, so that no two have one in common.

    Args:
        first: the first number.
        stride: from one number to the next.

    Attributes:
        current: the number of each environment's trajectory, int64 of the batch size; None before the first.
        free: the next number to be given.
    """

    def __init__(self, first: int = 0, stride: int = 1) -> None:
        self.free, self.stride = first, stride
        self.current: Tensor | None = None

    def begin(self, size: torch.Size, mask: Tensor | None = None) -> None:
        """Number new trajectories.

        Args:
            size: the batch size.
            mask: of the environments in which one begins; None for all.
        """
        if self.current is None or mask is None:
            self.current = self._take(size.numel()).view(size)
        else:
            self.current = self.current.masked_scatter(mask, self._take(int(mask.sum())))

    def numbered(self, done: Tensor) -> Tensor:
        """The numbers of a batch's rows; trajectories begin behind those that are done.

        Args:
            done: bool `(*batch, T)`, on the CPU.

        Returns:
            int64 of the same shape.
        """
        assert self.current is not None
        size, steps = done.shape[:-1], done.shape[-1]
        if not bool(done.any()):
            return self.current.unsqueeze(-1).expand(done.shape).clone()
        began = done.reshape(-1, steps).T.contiguous()
        behind = began.new_zeros(began.shape, dtype=torch.int64)
        behind.masked_scatter_(began, self._take(int(began.sum())))
        first = self.current.reshape(1, -1)
        # A row has the number that was given last. Later ones are greater, and 0 where none was given.
        numbers = torch.cat([first, behind]).cummax(0).values
        self.current = numbers[-1].view(size).clone()
        return numbers[:-1].T.reshape(done.shape).contiguous()

    def _take(self, count: int) -> Tensor:
        numbers = self.free + self.stride * torch.arange(count)
        self.free += self.stride * count
        return numbers


def ended(rollout: TensorDictBase, sets: Sequence[DoneSet]) -> Tensor:
    """Which rows end a trajectory: those behind which the environment is reset, or a part of it.

    An agent that is done while a flag above it says that the episode goes on ends none.

    Args:
        rollout: transitions `(*batch, T)`.
        sets: the root-most done flags of the environment.

    Returns:
        bool `(*batch, T)`, on the CPU.
    """
    size, following = rollout.batch_size, rollout.get("next")
    found: Tensor | None = None
    for flags in sets:
        flag = peek(following, flags.done)
        flag = flag.reshape(size) if flag.numel() == size.numel() else flag.reshape(*size, -1).any(-1)
        found = flag.cpu() if found is None else found | flag.cpu()
    return torch.zeros(size, dtype=torch.bool) if found is None else found


def in_first_episodes(rollout: TensorDictBase, sets: Sequence[DoneSet]) -> Tensor:
    """Which rows are of the first episode of their environment, its last row included.

    An episode is over when all flags are set, those of each agent too, as for `break_when_all_done`.

    Args:
        rollout: transitions `(*batch, T)`.
        sets: the root-most done flags of the environment.

    Returns:
        bool `(*batch, T)`.
    """
    size, following = rollout.batch_size, rollout.get("next")
    over = torch.stack([peek(following, flags.done).reshape(*size, -1).all(-1) for flags in sets]).all(0)
    ends = over.int()
    return ends.cumsum(-1) == ends


def frames_in(batch: TensorDictBase) -> int:
    """How many elements of a batch are transitions: all but those that ``("collector", "mask")`` leaves out."""
    mask = batch.get(MASK_KEY, None)
    return batch.numel() if mask is None else int(mask.sum())


def lengthened(batch: D, steps: int) -> D:
    """A batch of whole episodes with as many steps as another: its last ones repeat, and `frames_in` does not count them.

    Args:
        batch: transitions `(*batch, T)` with a ``("collector", "mask")``.
        steps: how many it gets, at least T.
    """
    missing = steps - batch.shape[-1]
    if not missing:
        return batch
    last = batch[..., -1:]
    last.set(MASK_KEY, torch.zeros_like(last.get(MASK_KEY)))
    whole: Any = torch.cat([batch, *[last] * missing], -1)
    return whole  # type: ignore[no-any-return]


def split_trajectories(
    rollout: TensorDictBase,
    *,
    trajectory_key: NestedKey | None = None,
    done_key: NestedKey = "done",
) -> TensorDict:
    """Lay the trajectories of a batch one below the other, padded with zeros to the longest.

    A trajectory that goes on in the next batch ends with this one.

    Args:
        rollout: transitions `(*batch, T)`.
        trajectory_key: where their numbers are, integers `(*batch, T)`. None: ``("collector", "traj_ids")``, or without
            these where `done_key` is set.
        done_key: of the done flag, below ``"next"``.

    Returns:
        A tensordict `(N, longest)` with a ``"mask"`` beside the numbers, bool, which is True for what is no padding; what a
        mask that was there leaves out stays out. Where there were no numbers, they are counted from 0.

    Raises:
        KeyError: neither numbers nor done flags are there.

    Example:
        >>> split_trajectories(CartPole().rollout(100, break_when_any_done=False)).shape
        torch.Size([5, 29])
    """
    key = TRAJECTORY_KEY if trajectory_key is None else as_tuple(trajectory_key)
    size = rollout.batch_size
    numbers = rollout.get(key, None)
    if numbers is None and trajectory_key is not None:
        raise KeyError(f"split_trajectories: no numbers of trajectories at {trajectory_key!r}")
    if numbers is None:
        done = rollout.get(("next", *as_tuple(done_key)), None)
        if done is None:
            raise KeyError(
                f"split_trajectories needs numbers at {TRAJECTORY_KEY!r}, or the flag {('next', done_key)!r}"
            )
        done = done.reshape(*size, -1).any(-1)
        starts = torch.ones_like(done)
        starts[..., 1:] = done[..., :-1]
    else:
        starts = torch.ones_like(numbers, dtype=torch.bool)
        starts[..., 1:] = numbers[..., 1:] != numbers[..., :-1]
    first = starts.reshape(-1).nonzero().squeeze(-1)
    lengths = torch.diff(first, append=first.new_tensor([size.numel()]))
    moments = torch.arange(int(lengths.max()), device=first.device)
    mask = moments < lengths.unsqueeze(-1)
    index = torch.where(mask, first.unsqueeze(-1) + moments, first.unsqueeze(-1))
    flat = rollout.reshape(-1)
    if numbers is None:
        flat.set(key, starts.reshape(-1).cumsum(0) - 1)

    def padded(value: Tensor) -> Tensor:
        rows = value[index]
        return rows.masked_fill_(~mask.reshape(*mask.shape, *[1] * (rows.ndim - 2)), 0)

    result: TensorDict = flat.apply(padded, batch_size=mask.shape)
    mask_key = (*key[:-1], "mask")
    before = result.get(MASK_KEY, None) if mask_key == MASK_KEY else None
    result.set(mask_key, mask if before is None else before.reshape(mask.shape) & mask)
    result.names = [None, "time"]
    return result
