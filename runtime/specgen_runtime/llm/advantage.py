"""Advantages within a group of answers to one prompt: the function, and the transform of replay buffers."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import MutableMapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal, Self

import torch
from tensordict import TensorDict, TensorDictBase, lazy_stack
from torch import Tensor

from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.llm.candidates import MCAdvantageSelector
from specgen_runtime.llm.trajectories import group_name, joined, rewards_of, trajectories_in, warn_of_unfilled
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.typing import NestedKey

__all__ = ["MCAdvantage", "conversation_advantage", "group_advantage", "groups_of_workers"]

_SMALLEST = 1e-6
"""The least standard deviation that rewards are divided by."""

_COUNTED = (
    *("completed_trajectories", "completed_decisions", "successful_trajectories", "trajectory_return_sum"),
    *("completed_groups", "written_groups", "dropped_groups", "rescued_groups", "dead_groups"),
    *("selected_trajectories", "unselected_trajectories"),
)
"""What is counted from zero."""


def group_advantage(reward: Tensor, group: Tensor) -> Tensor:
    """How much better rewards are than those of their group: `(reward - mean) / std` (Shao et al. 2024, section 4.1.2).

    The standard deviation is the unbiased one, at least 1e-6. In a group whose rewards are equal it is exactly 0.

    Args:
        reward: of any shape, floating point.
        group: the group of each reward, of as many elements, integers.

    Returns:
        A tensor of the shape and dtype of `reward`.

    Raises:
        ValueError: the numbers of elements differ, or a group has one reward.
    """
    if reward.numel() != group.numel():
        raise ValueError(
            f"there is a group for each reward, got groups {list(group.shape)} of rewards {list(reward.shape)}"
        )
    values = reward.flatten()
    labels: Any = group.flatten()
    names, place, counts = labels.unique(return_inverse=True, return_counts=True)
    if bool((counts < 2).any()):
        alone = names[counts < 2].tolist()
        raise ValueError(f"a reward alone in its group has no advantage: groups {alone} have one reward each")
    zeros = values.new_zeros(len(names))
    centred = values - (zeros.index_add(0, place, values) / counts)[place]
    std = (zeros.index_add(0, place, centred.square()) / (counts - 1)).sqrt()
    # An average of equal numbers may differ from them in the last bit, which the division would make large.
    highest, lowest = (
        zeros.scatter_reduce(0, place, values, how, include_self=False) for how in ("amax", "amin")
    )
    scaled = centred / std.clamp_min(_SMALLEST)[place]
    return torch.where((highest == lowest)[place], 0.0, scaled).reshape(reward.shape)


def groups_of_workers(group: Tensor, workers: int) -> Tensor:
    """The groups of conversations that several workers held, with numbers that no two workers share.

    Each worker numbers its prompts from 0.

    Args:
        group: the numbers of a batch whose first dimension has equally many rows of each worker, one worker's behind
            another's, integers ``[rows, *]``.
        workers: how many there were.

    Returns:
        Integers of the same shape.

    Raises:
        ValueError: the rows are not equally many of each worker.
    """
    if workers < 1 or not len(group) or len(group) % workers:
        raise ValueError(f"{len(group)} rows are not equally many of each of {workers} workers")
    worker = torch.arange(len(group), device=group.device) // (len(group) // workers)
    return group * workers + worker.reshape(-1, *[1] * (group.ndim - 1))


def conversation_advantage(
    reward: Tensor, group: Tensor, conversation: Tensor, mask: Tensor | None = None
) -> Tensor:
    """How much better whole conversations are than the others of their group: the advantage of each of their answers.

    The rewards of a conversation are summed over its answers. All of these share the advantage of the sum among those of
    its group, see `group_advantage`: a late reward is as much the merit of the first answer as of the last.

    Args:
        reward: of each answer, ``[*batch, 1]``, floating point.
        group: the group of each answer, integers ``[*batch, 1]``, the same for all answers of a conversation.
        conversation: the number of the conversation that each answer is of, integers ``[*batch]``.
        mask: which rows are answers, bool ``[*batch]``; None for all.

    Returns:
        A tensor of the shape and dtype of `reward`; 0 where there is no answer.

    Raises:
        ValueError: the numbers of elements differ, a group has one conversation, or a conversation is in two groups.
    """
    if not conversation.numel() == reward.numel() == group.numel():
        raise ValueError(
            f"each answer has a reward, a group and the number of its conversation, got {list(reward.shape)},"
            f" {list(group.shape)} and {list(conversation.shape)}"
        )
    counts = torch.ones_like(conversation, dtype=torch.bool) if mask is None else mask
    if counts.dtype != torch.bool or counts.numel() != conversation.numel():
        raise ValueError(
            f"mask says of each answer whether it counts: bool {list(conversation.shape)}, got {counts.dtype}"
            f" {list(counts.shape)}"
        )
    counts = counts.flatten()
    labels: Any = conversation.flatten()[counts]
    _, place = labels.unique(return_inverse=True)
    rewards, groups = reward.flatten()[counts], group.flatten()[counts]
    size = int(place.max()) + 1 if len(place) else 0
    returns = rewards.new_zeros(size).index_add(0, place, rewards)
    group_of = groups.new_zeros(size).scatter(0, place, groups)
    if bool((differs := group_of[place] != groups).any()):
        raise ValueError(
            f"all answers of a conversation have one group, those of {labels[differs][0].item()} differ"
        )
    advantages = group_advantage(returns, group_of)
    made = torch.zeros_like(reward).flatten()
    made[counts] = advantages[place]
    return made.reshape(reward.shape)


class _Count:
    """A number of `MCAdvantage.get_stats` as an attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, transform: MCAdvantage, owner: type) -> float:
        return transform.get_stats()[self._name]


class MCAdvantage(ReplayTransform):
    """Writes the advantages of whole groups, when trajectories come into a replay buffer.

    `inv` holds trajectories back until there are `grpo_size` of their group, and then gives all of them, behind each
    other along one dimension, with their advantages; None while no group is full. Data are trajectories that have
    ended, along the last batch dimension; several may follow each other.

    Args:
        grpo_size: how many trajectories a group has, at least 2.
        prompt_key: says at the first step of a trajectory which group it is of: ``"group"`` of `ChatEnv`, or a text.
        rewards_key: the rewards.
        advantage_key: where the advantages are written, in the shape of the rewards.
        done_key: where trajectories end.
        verbose: accepted; `get_stats` says what became of the groups, and so do attributes of the names that it has.
        trajectory_return: how rewards become one return of a trajectory, whose advantage all of its steps get. None: each
            step's reward is compared with those of all steps in the group.
        keep_return_bounds: a group is dropped if the average of its returns is not between these (Yu et al. 2025,
            section 3.2); needs `trajectory_return`.
        candidate_group_size: wait for this many trajectories at most until `grpo_size` of them are within the bounds;
            needs `trajectory_return`.
        candidate_selection_min_size: how many there must be before some are chosen; None: `grpo_size`.
        candidate_selector: chooses among them; None: an `MCAdvantageSelector`.

    Raises:
        ValueError: an argument is out of its range, or needs another one.
        KeyError, RuntimeError, TypeError: at a call: an entry is missing, a trajectory has no end, a group is named
            by what has no equality.
    """

    completed_trajectories, completed_decisions, successful_trajectories = _Count(), _Count(), _Count()
    trajectory_return_sum, trajectory_return_max = _Count(), _Count()
    completed_groups, written_groups, dropped_groups = _Count(), _Count(), _Count()
    rescued_groups, dead_groups = _Count(), _Count()
    selected_trajectories, unselected_trajectories = _Count(), _Count()
    queued_groups, queued_trajectories, max_queued_trajectories_per_group = _Count(), _Count(), _Count()

    def __init__(
        self,
        grpo_size: int,
        prompt_key: NestedKey = "query",
        rewards_key: NestedKey = ("next", "reward"),
        advantage_key: NestedKey = "advantage",
        done_key: NestedKey = ("next", "done"),
        verbose: bool = False,
        *,
        trajectory_return: Literal["sum", "max", "mean"] | None = None,
        keep_return_bounds: tuple[float, float] | None = None,
        candidate_group_size: int | None = None,
        candidate_selection_min_size: int | None = None,
        candidate_selector: MCAdvantageSelector | None = None,
    ) -> None:
        super().__init__([prompt_key, rewards_key, done_key], [advantage_key])
        most = grpo_size if candidate_group_size is None else candidate_group_size
        least = grpo_size if candidate_selection_min_size is None else candidate_selection_min_size
        if grpo_size < 2:
            raise ValueError(f"grpo_size >= 2, got {grpo_size}: a reward alone has no advantage")
        if trajectory_return not in ("sum", "max", "mean", None):
            raise ValueError(
                f"trajectory_return must be one of 'sum', 'max', 'mean' and None, got {trajectory_return!r}"
            )
        if not grpo_size <= least <= most:
            raise ValueError(
                "grpo_size <= candidate_selection_min_size <= candidate_group_size, got"
                f" {grpo_size}, {least}, {most}"
            )
        if trajectory_return is None and (keep_return_bounds is not None or most > grpo_size):
            raise ValueError(
                "dynamic sampling (keep_return_bounds, or candidate_group_size > grpo_size) is about returns: it needs"
                " trajectory_return"
            )
        if keep_return_bounds is not None and not keep_return_bounds[0] < keep_return_bounds[1]:
            raise ValueError(f"keep_return_bounds is (low, high), increasing, got {keep_return_bounds}")
        self.grpo_size = grpo_size
        self.prompt_key, self.rewards_key = normal_key(prompt_key), normal_key(rewards_key)
        self.advantage_key, self.done_key = normal_key(advantage_key), normal_key(done_key)
        self.verbose = verbose
        self.trajectory_return = trajectory_return
        self.keep_return_bounds = keep_return_bounds
        self.candidate_group_size, self.candidate_selection_min_size = most, least
        self.candidate_selector = candidate_selector or MCAdvantageSelector()
        self.queues: MutableMapping[Any, list[TensorDictBase]] = {}
        self._stats: MutableMapping[str, float] = {}
        self._lock: Any = nullcontext()
        self.__dict__["_manager"] = None
        self.reset_stats()

    @property
    def is_shared(self) -> bool:
        """Whether processes that get this object share the trajectories that are held back, and the counts."""
        return not isinstance(self.queues, dict)

    def share_memory_(self) -> Self:
        """Share the trajectories that are held back, and the counts, with processes that get this object.

        They are then in a process of their own, which ends with the process that called this. Whichever process has the
        last trajectory of a group gets the group.
        """
        if not self.is_shared:
            manager = multiprocessing.Manager()
            self.queues, self._stats = manager.dict(self.queues), manager.dict(self._stats)
            self._lock = manager.RLock()
            self.__dict__["_manager"] = manager
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_manager": None}  # it is one process's; others have its proxies

    def get_extra_state(self) -> dict[str, Any]:
        """The trajectories that are held back, and the counts, as plain values."""
        with self._lock:
            queues = [(name, [to_plain(each) for each in queue]) for name, queue in self.queues.items()]
            return {"queues": queues, "stats": dict(self._stats)}

    def set_extra_state(self, state: Any) -> None:
        """Hold back what another transform held back, and count on."""
        with self._lock:
            self.queues.clear()
            self.queues.update(
                {name: [from_plain(each) for each in queue] for name, queue in state["queues"]}
            )
            self._stats.update(state["stats"])

    def reset_stats(self) -> None:
        """Count from zero again."""
        with self._lock:
            self._stats.update(dict.fromkeys(_COUNTED, 0), trajectory_return_max=-math.inf)

    def clear_queues(self) -> None:
        """Forget the trajectories that are held back."""
        with self._lock:
            self.queues.clear()

    def get_stats(self) -> dict[str, float]:
        """Counts since `reset_stats`, and of what is held back now.

        `completed_trajectories` came in, of `completed_decisions` steps; the sums of their rewards have the sum
        `trajectory_return_sum` and the largest `trajectory_return_max`, and `successful_trajectories` of them are above
        0. Of `completed_groups`, `written_groups` were given out, among them `dead_groups` whose rewards are all equal;
        `dropped_groups` were outside the bounds, and `rescued_groups` would have been without further candidates. In
        groups with those, `selected_trajectories` were given out and `unselected_trajectories` were not.
        `queued_groups` and `queued_trajectories` are held back, at most `max_queued_trajectories_per_group` of one.
        """
        with self._lock:
            lengths = [len(queue) for queue in self.queues.values()]
            return {
                **self._stats,
                "queued_groups": len(lengths),
                "queued_trajectories": sum(lengths),
                "max_queued_trajectories_per_group": max(lengths, default=0),
            }

    def _count(self, **more: float) -> None:
        for name, number in more.items():
            self._stats[name] += number

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        full: list[TensorDictBase] = []
        for trajectory in trajectories_in(tensordict, self.done_key, type(self).__name__):
            full += self._added(trajectory)
        return joined(full) if full else None  # what replay buffers take for nothing

    def _added(self, trajectory: TensorDictBase) -> Sequence[TensorDictBase]:
        """Put a trajectory to its group; the group with its advantages if it is full."""
        name = group_name(trajectory, self.prompt_key, type(self).__name__)
        total = float(sum(reward.sum() for reward in self._rewards(trajectory)))
        with self._lock:
            queue = [*self.queues.get(name, ()), trajectory]
            self.queues[name] = queue  # as a whole: other processes see no change of a list
            self._count(completed_trajectories=1, completed_decisions=len(trajectory))
            self._count(trajectory_return_sum=total, successful_trajectories=total > 0)
            self._stats["trajectory_return_max"] = max(self._stats["trajectory_return_max"], total)
            chosen = None if len(queue) < self.candidate_selection_min_size else self._chosen(queue)
            if chosen is None and len(queue) < self.candidate_group_size:
                if not self._stats["completed_groups"]:
                    came = self._stats["completed_trajectories"]
                    warn_of_unfilled(self.queues, came, self.candidate_group_size, self.prompt_key)
                return ()
            del self.queues[name]
            self._count(completed_groups=1)
            if chosen is None:
                self._count(dropped_groups=1)
                return ()
            self._count(written_groups=1, rescued_groups=not self._first_would_do(queue))
            self._count(selected_trajectories=len(chosen), unselected_trajectories=len(queue) - len(chosen))
            return self._with_advantages([queue[index] for index in chosen])

    def _first_would_do(self, queue: Sequence[TensorDictBase]) -> bool:
        """Whether the first trajectories of a group are within the bounds, without further candidates."""
        if self.keep_return_bounds is None:
            return True
        low, high = self.keep_return_bounds
        returns = [float(self._return(trajectory)) for trajectory in queue[: self.grpo_size]]
        return low < sum(returns) / len(returns) < high

    def _chosen(self, queue: Sequence[TensorDictBase]) -> Sequence[int] | None:
        """Which of the trajectories are the group; None if they are not within the bounds."""
        if self.trajectory_return is None:
            return range(len(queue))
        returns = torch.stack([self._return(trajectory) for trajectory in queue])
        candidates = TensorDict({"return": returns, "trajectories": lazy_stack(list(queue))}, [len(queue)])
        return self.candidate_selector.select(
            candidates.select(*self.candidate_selector.in_keys),
            group_size=self.grpo_size,
            keep_return_bounds=self.keep_return_bounds,
        )

    def _rewards(self, trajectory: TensorDictBase) -> list[Tensor]:
        return rewards_of(trajectory, self.rewards_key, type(self).__name__)

    def _return(self, trajectory: TensorDictBase) -> Tensor:
        reward = torch.cat([each.flatten() for each in self._rewards(trajectory)])
        match self.trajectory_return:
            case "max":
                return reward.max()
            case "mean":
                return reward.mean()
            case _:
                return reward.sum()

    def _with_advantages(self, group: list[TensorDictBase]) -> list[TensorDictBase]:
        rewards = [self._rewards(trajectory) for trajectory in group]
        counts = [sum(reward.numel() for reward in each) for each in rewards]
        if self.trajectory_return is None:
            values = torch.cat([reward.flatten() for each in rewards for reward in each])
        else:
            values = torch.stack([self._return(trajectory) for trajectory in group])
        advantages = group_advantage(
            values, torch.zeros(values.shape, dtype=torch.int64, device=values.device)
        )
        self._count(dead_groups=not bool(advantages.any()))
        if self.trajectory_return is not None:
            advantages = advantages.repeat_interleave(torch.tensor(counts, device=values.device))
        parts = torch.split(advantages, counts)
        return [self._with(*each) for each in zip(group, rewards, parts, strict=True)]

    def _with(
        self, trajectory: TensorDictBase, rewards: Sequence[Tensor], advantages: Tensor
    ) -> TensorDictBase:
        """A copy of a trajectory with the advantages of its rewards."""
        parts = torch.split(advantages, [reward.numel() for reward in rewards])
        shaped = [part.reshape(reward.shape).clone() for part, reward in zip(parts, rewards, strict=True)]
        if len(shaped) == 1:
            return trajectory.copy().set(self.advantage_key, shaped[0])
        steps = zip(trajectory.unbind(0), shaped, strict=True)
        return lazy_stack([step.copy().set(self.advantage_key, part) for step, part in steps], 0)
