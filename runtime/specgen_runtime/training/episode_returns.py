"""`EpisodeReturns`: the returns of the episodes that end in the data, summed where the data do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import MASK_KEY, TRAJECTORY_KEY, as_tuple
from specgen_runtime.typing import NestedKey

__all__ = ["EpisodeReturns", "row_values", "sum_dtype"]

_STEPS = 64
"""How many single steps are read at once."""


def sum_dtype(device: torch.device) -> torch.dtype:
    """The most precise floating-point dtype of a device, for sums of many numbers."""
    return torch.float32 if device.type == "mps" else torch.float64


def row_values(values: Tensor, batch_dims: int) -> Tensor:
    """One number a row: entries behind the batch dimensions (agents, a trailing 1) are averaged, flags joined by or.

    Args:
        values: `[*batch, ...]`.
        batch_dims: how many dimensions the batch has.

    Returns:
        float32 or float64 `[*batch]`; bool of flags.
    """
    if values.dim() == batch_dims:
        return values
    flat = values.flatten(batch_dims)
    if flat.shape[-1] == 1:
        return flat[..., 0]
    return flat.any(-1) if values.dtype == torch.bool else flat.to(torch.get_default_dtype()).mean(-1)


class EpisodeReturns:
    """Means over the episodes that ended since they were taken last. Nothing waits for a device until then.

    Single steps are kept and read many at a time.

    Args:
        keys: by the name in the log, the key in `"next"` under which the chain sums rewards (`RewardSum`). Where data
            lack it, the entry `reward` beside it is summed here, for each environment across batches. Where the number of
            its trajectory (``("collector", "traj_ids")``) is another one than at the end of the batch before, a sum
            begins anew: a worker was replaced, or a simulator began new episodes.
        done: the key in `"next"` that says that an episode is over.
    """

    def __init__(self, keys: Mapping[str, NestedKey], done: NestedKey = "done") -> None:
        self.keys = {name: as_tuple(key) for name, key in keys.items()}
        self.done = as_tuple(done)
        self._steps: list[tuple[Tensor, ...]] = []
        self._summed_here: tuple[bool, ...] = ()
        self._sums: dict[str, Tensor] = {}
        self._episodes: Tensor | None = None
        self._running: dict[str, Tensor] = {}
        self._trajectories: Tensor | None = None

    def add(self, batch: TensorDictBase) -> None:
        """Read the episodes that end in a batch.

        Args:
            batch: transitions of batch size `[*batch]`, or with a dimension named `"time"`; those that
                ``("collector", "mask")`` leaves out don't count.

        Raises:
            KeyError: it has no done flags, or neither returns nor rewards.
            ValueError: rewards are summed here, and the environments are more or fewer than before.
        """
        next_ = batch.get("next", None)
        done = None if next_ is None else next_.get(self.done, None)
        if done is None:
            raise KeyError(f"run.count reads {('next', *self.done)}, which the batch lacks")
        found = [next_.get(key, None) for key in self.keys.values()]
        summed_here = tuple([value is None for value in found])
        values = [
            self._reward(next_, key) if value is None else value
            for key, value in zip(self.keys.values(), found, strict=True)
        ]
        time = batch.names.index("time") if "time" in batch.names else None
        rows = [row_values(value, batch.batch_dims) for value in (done, *values)]
        if (mask := batch.get(MASK_KEY, None)) is not None:
            rows = [torch.where(mask, row, torch.zeros_like(row)) for row in rows]
        numbers = batch.get(TRAJECTORY_KEY, None) if any(summed_here) else None
        if numbers is not None:
            rows.append(numbers)
        before = self._steps[0] if self._steps else rows
        kept, new = ((len(one), one[0].shape, one[0].device) for one in (before, rows))
        if (summed_here, *new) != (self._summed_here, *kept):
            self._read_steps()
            self._summed_here = summed_here
        if time is not None:
            self._read_steps()
            self._read([row.movedim(time, 0) for row in rows])
            return
        self._steps.append(tuple([row.clone() for row in rows]))  # a loop may write its next step into them
        if len(self._steps) == _STEPS:
            self._read_steps()

    def _reward(self, next_: TensorDictBase, key: tuple[str, ...]) -> Tensor:
        reward: Tensor | None = next_.get((*key[:-1], "reward"), None)
        if reward is None:
            raise KeyError(
                f"run.count reads {('next', *key)}, or sums {('next', *key[:-1], 'reward')}: the batch has neither"
            )
        return reward

    def _read_steps(self) -> None:
        """Read the single steps that were kept."""
        steps, self._steps = self._steps, []
        if steps:
            self._read([torch.stack(rows) for rows in zip(*steps, strict=True)])

    def _read(self, rows: list[Tensor]) -> None:
        """Add the episodes that end in done flags, values and, where there are some, trajectories' numbers `[T, *batch]`."""
        over, *values = rows
        begun = self._begun(values.pop()) if len(values) > len(self.keys) else None
        count = over.sum()
        self._episodes = count if self._episodes is None else self._episodes.to(count.device) + count
        for name, value, summed_here in zip(self.keys, values, self._summed_here, strict=True):
            ended = self._summed(name, value, over, begun) if summed_here else torch.where(over, value, 0)
            total = ended.sum(dtype=sum_dtype(ended.device))
            before = self._sums.get(name)
            self._sums[name] = total if before is None else before.to(total.device) + total

    def _begun(self, numbers: Tensor) -> Tensor:
        """Where a trajectory begins, by the numbers of all: bool `[T, *batch]`."""
        last = self._trajectories
        first = numbers[0] if last is None or last.shape != numbers.shape[1:] else last.to(numbers.device)
        before = torch.cat([first.unsqueeze(0), numbers[:-1]])
        self._trajectories = numbers[-1].clone()
        return numbers != before

    def _summed(self, name: str, rewards: Tensor, over: Tensor, begun: Tensor | None) -> Tensor:
        """The returns of the episodes that end, 0 elsewhere: `[T, *batch]` as all other arguments."""
        running = self._running.get(name, torch.zeros_like(rewards[0])).to(rewards.device)
        if running.shape != rewards.shape[1:]:
            raise ValueError(
                f"run.count sums the rewards of environments of batch size {list(running.shape)}, found one of"
                f" {list(rewards.shape[1:])}: name the dimension of time `time`, or let the chain sum (RewardSum)"
            )
        ended = []
        for step, (reward, over_now) in enumerate(zip(rewards, over, strict=True)):
            running = running + reward if begun is None else torch.where(begun[step], 0, running) + reward
            ended.append(torch.where(over_now, running, 0))
            running = torch.where(over_now, 0, running)
        self._running[name] = running.clone()
        return torch.stack(ended)

    def take(self) -> dict[str, Tensor]:
        """The number of episodes as `"episodes"`, and the sum of each return; empty if nothing was counted."""
        self._read_steps()
        if self._episodes is None:
            return {}
        taken = {"episodes": self._episodes, **self._sums}
        self._episodes, self._sums = None, {}
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What was not taken yet, and the sums of episodes that go on."""
        return {
            "steps": list(self._steps),
            "summed_here": self._summed_here,
            "sums": dict(self._sums),
            "episodes": self._episodes,
            "running": dict(self._running),
            "trajectories": self._trajectories,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._steps, self._summed_here = list(state["steps"]), tuple(state["summed_here"])
        self._sums, self._episodes = dict(state["sums"]), state["episodes"]
        self._running = dict(state["running"])
        self._trajectories = state["trajectories"]
