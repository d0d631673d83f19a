"""`EpisodeReturns`: the returns of the episodes that end in the data, summed where the data do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.typing import NestedKey

__all__ = ["EpisodeReturns", "row_values", "sum_dtype"]


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

    Args:
        keys: by the name in the log, the key in `"next"` under which the chain sums rewards (`RewardSum`). Where data
            lack it, the entry `reward` beside it is summed here, for each environment across batches.
        done: the key in `"next"` that says that an episode is over.
    """

    def __init__(self, keys: Mapping[str, NestedKey], done: NestedKey = "done") -> None:
        self.keys = {name: as_tuple(key) for name, key in keys.items()}
        self.done = as_tuple(done)
        self._sums: dict[str, Tensor] = {}
        self._episodes: Tensor | None = None
        self._running: dict[str, Tensor] = {}

    def add(self, batch: TensorDictBase) -> None:
        """Read the episodes that end in a batch.

        Args:
            batch: transitions of batch size `[*batch]`, or with a dimension named `"time"`.

        Raises:
            KeyError: it has no done flags, or neither returns nor rewards.
        """
        next_ = batch.get("next", None)
        done = None if next_ is None else next_.get(self.done, None)
        if done is None:
            raise KeyError(f"run.count reads {('next', *self.done)}, which the batch lacks")
        over = row_values(done, batch.batch_dims)
        count = over.sum()
        self._episodes = count if self._episodes is None else self._episodes + count
        time = batch.names.index("time") if batch._has_names() and "time" in batch.names else None
        for name, key in self.keys.items():
            returns = next_.get(key, None)
            if returns is None:
                ended = self._summed(name, next_, key, over, time)
            else:
                ended = torch.where(over, row_values(returns, batch.batch_dims), 0)
            total = ended.sum(dtype=sum_dtype(ended.device))
            self._sums[name] = total if name not in self._sums else self._sums[name] + total

    def _summed(
        self, name: str, next_: TensorDictBase, key: tuple[str, ...], over: Tensor, time: int | None
    ) -> Tensor:
        """The returns of the episodes that end, `[*batch]`, 0 elsewhere, where no entry has them."""
        reward = next_.get((*key[:-1], "reward"), None)
        if reward is None:
            raise KeyError(
                f"run.count reads {('next', *key)}, or sums {('next', *key[:-1], 'reward')}: the batch has neither"
            )
        rewards = row_values(reward, over.dim())
        moments = (
            [(rewards, over)]
            if time is None
            else list(zip(rewards.unbind(time), over.unbind(time), strict=True))
        )
        running = self._running.get(name)
        if running is not None and running.shape != moments[0][0].shape:
            raise ValueError(
                f"run.count sums the rewards of environments of batch size {list(running.shape)}, found one of"
                f" {list(moments[0][0].shape)}: name the dimension of time `time`, or let the chain sum (RewardSum)"
            )
        ended = []
        for reward_now, over_now in moments:
            running = reward_now if running is None else running + reward_now
            ended.append(torch.where(over_now, running, 0))
            running = torch.where(over_now, 0, running)
        assert running is not None
        self._running[name] = running.clone()
        return torch.stack(ended)

    def take(self) -> dict[str, Tensor]:
        """The number of episodes as `"episodes"`, and the sum of each return; empty if nothing was counted."""
        if self._episodes is None:
            return {}
        taken = {"episodes": self._episodes, **self._sums}
        self._episodes, self._sums = None, {}
        return taken

    def state_dict(self) -> dict[str, Any]:
        """Sums that were not taken yet, and those of episodes that go on."""
        return {"sums": dict(self._sums), "episodes": self._episodes, "running": dict(self._running)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._sums, self._episodes = dict(state["sums"]), state["episodes"]
        self._running = dict(state["running"])
