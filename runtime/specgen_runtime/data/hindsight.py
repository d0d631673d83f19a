"""`HERReplayBuffer`: samples whose goals are what was achieved in their trajectories, with the rewards for these goals."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.data.rows import RowData
from specgen_runtime.data.samplers import Drawn, Sampler
from specgen_runtime.data.slices import SliceSampler
from specgen_runtime.data.tensordict_replay_buffer import TensorDictReplayBuffer
from specgen_runtime.data.trajectories import TRAJECTORY_NUMBERS, TrajectoryEnds
from specgen_runtime.envs.keys import MissingKeyError, next_key, show_key
from specgen_runtime.transforms.keys import as_tuple, sibling
from specgen_runtime.typing import NestedKey

__all__ = ["HERReplayBuffer", "HindsightStrategy"]


class HindsightStrategy(StrEnum):
    """Which achieved goal of the replay buffer becomes the goal of a step."""

    FUTURE = "future"
    """of this step, or of one behind it in the trajectory"""
    FINAL = "final"
    """of the last step of the trajectory"""
    EPISODE = "episode"
    """of any step of the trajectory"""
    RANDOM = "random"
    """of any step of the replay buffer"""


class HERReplayBuffer(TensorDictReplayBuffer):
    """A `TensorDictReplayBuffer` that learns in hindsight (Andrychowicz et al. 2017, arXiv:1707.01495).

    The first `int(her_ratio * batch_size)` steps of a sample have another goal: what was achieved behind a step of their
    trajectory, `("next", achieved_goal_key)`, and the reward for that; with `terminated_fn` they end there as well. Trajectories
    end at flags, where the number of a trajectory changes (`("collector", "traj_ids")` or `"episode"`, if rows have one), and at
    the newest row.

    Args:
        reward_fn: of steps `[n]` with their new goals, their rewards, `[n]` or `[n, 1]`.
        terminated_fn: of the same steps, whether the new goals end their episodes, `[n]` or `[n, 1]`: the value of
            `terminated_key`. `end_key`, or with a `terminated_key` `"done"` beside that, stays set where trajectories end, and is
            set where it is. Without it flags stay as they are: a step that reaches its new goal is followed by others.
        her_ratio: which part of a sample has other goals, from 0 to 1.
        strategy: which goals: a `HindsightStrategy`, or its value.
        goal_key: the goal. That of the next record is replaced as well, if it is there.
        achieved_goal_key: what was achieved, of the type of goals.
        reward_key: the reward.
        end_key: the flag at the end of a trajectory; `"terminated"` and `"truncated"` beside it are ends, too.
        terminated_key: what `terminated_fn` says. Defaults to `"terminated"` beside `end_key`.
        options: keywords of `TensorDictReplayBuffer`, such as `sampler`.

    Raises:
        ValueError: `her_ratio` is not between 0 and 1, or `strategy` is none; a `SliceSampler`, whose steps would have goals that
            change within an episode, which no policy with a memory sees when it acts; at a sample: a goal, the reward or the flag has
            another shape than what is stored.
        KeyError: at a sample: an entry is missing, or there is no flag.
        TypeError: at a sample: rows are no tensordicts, or can't be stacked to one.

    Example:
        >>> buffer = HERReplayBuffer(
        ...     lambda step: (step["next", "achieved_goal"] - step["desired_goal"]).norm(dim=-1) < 0.05,
        ...     storage=LazyTensorStorage(100_000),
        ...     batch_size=256,
        ... )
    """

    def __init__(
        self,
        reward_fn: Callable[[TensorDictBase], Tensor],
        *,
        terminated_fn: Callable[[TensorDictBase], Tensor] | None = None,
        her_ratio: float = 0.8,
        strategy: HindsightStrategy | Literal["future", "final", "episode", "random"] = "future",
        goal_key: NestedKey = "desired_goal",
        achieved_goal_key: NestedKey = "achieved_goal",
        reward_key: NestedKey = ("next", "reward"),
        end_key: NestedKey = ("next", "done"),
        terminated_key: NestedKey | None = None,
        **options: Any,
    ) -> None:
        if not 0 <= her_ratio <= 1:
            raise ValueError(f"her_ratio must be between 0 and 1, got {her_ratio}")
        if strategy not in [*HindsightStrategy]:
            raise ValueError(f"strategy is one of {', '.join(HindsightStrategy)}, got {strategy!r}")
        if not callable(reward_fn):
            raise TypeError(f"reward_fn is a function of steps, got {reward_fn!r}")
        self.strategy = HindsightStrategy(strategy)
        super().__init__(**options)
        self.reward_fn, self.terminated_fn = reward_fn, terminated_fn
        self.her_ratio = her_ratio
        self.goal_key, self.achieved_goal_key = goal_key, achieved_goal_key
        self.reward_key, self.end_key, self.terminated_key = reward_key, end_key, terminated_key
        flags = [end_key, *(sibling(end_key, name) for name in ("terminated", "truncated"))]
        self._ends = TrajectoryEnds(type(self).__name__, TRAJECTORY_NUMBERS, flags, both=True)

    def _check_sampler(self, sampler: Sampler) -> None:
        super()._check_sampler(sampler)
        if isinstance(sampler, SliceSampler):
            raise ValueError(
                f"{type(self).__name__} gives each step a goal of its own, and the steps of a {type(sampler).__name__} are read"
                " one behind the other: draw single steps, as RandomSampler does"
            )

    def _reading(self, index: Drawn) -> Callable[[], RowData]:
        """As that of `ReplayBuffer`; goals are drawn now, and read with the sample."""
        elements = torch.stack(index, -1) if isinstance(index, tuple) else index.unsqueeze(-1)
        elements = elements[: int(len(elements) * self.her_ratio)]
        if not len(elements):
            return super()._reading(index)
        chosen = self._chosen(elements)
        goals = chosen.unbind(-1) if isinstance(index, tuple) else chosen.squeeze(-1)
        collate = self._collate_fn or self.storage.collate
        return lambda: collate(self._relabelled(self._read(index), self._read(goals)))

    def _read(self, index: Drawn) -> TensorDictBase:
        rows = self.storage.collate(self.storage.gather(index))
        if not isinstance(rows, TensorDictBase):
            raise TypeError(
                f"{type(self).__name__} samples tensordicts that can be stacked, got {type(rows).__name__}"
            )
        return rows

    def _relabelled(self, data: TensorDictBase, of_goals: TensorDictBase) -> TensorDictBase:
        """A sample, whose first steps have the goals that were achieved in others."""
        goals = self._stored(of_goals, next_key(self.achieved_goal_key))
        count = len(goals)
        for key in (self.goal_key, next_key(self.goal_key)):
            before = self._stored(data, key) if key == self.goal_key else data.get(key, None)
            if before is None:
                continue
            if before.shape[1:] != goals.shape[1:]:
                raise ValueError(
                    f"{show_key(key)} has the shape {list(before.shape[1:])}, and what is achieved {list(goals.shape[1:])}"
                )
            data.set(key, torch.cat([goals.to(before), before[count:]]))
        steps = data[:count]
        reward = self._computed("reward_fn", self.reward_fn(steps), data, self.reward_key, count)
        if self.terminated_fn is not None:
            key = self.terminated_key or sibling(self.end_key, "terminated")
            end_key = self.end_key if self.terminated_key is None else sibling(key, "done")
            terminated = self._computed("terminated_fn", self.terminated_fn(steps), data, key, count)
            done = data.get(end_key, None)
            data.set(key, terminated)
            if done is not None and as_tuple(end_key) != as_tuple(key):
                data.set(end_key, torch.cat([done[:count] | terminated[:count], done[count:]]))
        return data.set(self.reward_key, reward)

    def _computed(self, name: str, given: object, data: TensorDictBase, key: NestedKey, count: int) -> Tensor:
        """An entry of a sample whose first values a function gave."""
        before = self._stored(data, key)
        wanted = before[:count].shape
        if not isinstance(given, Tensor) or given.shape not in (wanted, wanted[:-1] or wanted):
            gives = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"{name} gives {gives} for {count} steps, whose {show_key(key)} is {list(wanted)}"
            )
        return torch.cat([given.reshape(wanted).to(before), before[count:]])

    def _stored(self, data: TensorDictBase, key: NestedKey) -> Tensor:
        found: Tensor | None = data.get(key, None)
        if found is None:
            raise MissingKeyError(f"{show_key(key)} is missing in the replay buffer: goals can't be replaced")
        return found

    def _chosen(self, elements: Tensor) -> Tensor:
        """The elements whose achieved goals become those of others, `[n, ndim]`."""
        ends = self._ends.of(self.storage)
        sizes = ends.sizes
        drawn = torch.rand(
            len(elements), dtype=torch.float64, device=elements.device, generator=self.generator
        )
        if self.strategy == "random":
            flat = (drawn * sizes.numel()).long().clamp_max(sizes.numel() - 1)
            return torch.stack(torch.unravel_index(flat, sizes), -1)
        begin, length = ends.piece_of(elements)
        low = (elements[:, 0] - begin) % sizes[0] if self.strategy == "future" else torch.zeros_like(begin)
        to = length - 1
        if self.strategy != "final":
            to = low + (drawn * (length - low)).long().clamp_max(length - 1 - low)
        chosen = elements.clone()
        chosen[:, 0] = (begin + to) % sizes[0]
        return chosen
