"""An environment that keeps its state on the object, as simulators do."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict, TensorDictBase


class Counter(EnvBase):
    """A simulator: each row counts its own steps on the object, and ends after a number of its own."""

    def __init__(self, *batch: int, partial: bool = True) -> None:
        super().__init__(batch_size=batch)
        self._supports_partial_steps = partial
        self.observation_spec = Composite(count=Unbounded((*batch, 1), dtype=torch.int64), shape=batch)
        self.action_spec = Bounded(-1.0, 1.0, (*batch, 1))
        self.reward_spec = Unbounded((*batch, 1))
        self.done_spec = Composite(
            {key: Categorical(2, shape=(*batch, 1), dtype=torch.bool) for key in ("done", "terminated")},
            shape=batch,
        )
        self.counts = torch.zeros((*batch, 1), dtype=torch.int64)
        self.ends = 5 + torch.arange(self.counts.numel()).reshape(self.counts.shape)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        rows = None if tensordict is None else tensordict.get("_reset", None)
        self.counts = torch.zeros_like(self.counts) if rows is None else self.counts.masked_fill(rows, 0)
        return TensorDict({"count": self.counts.clone()}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        rows = tensordict.get("_step", None)
        going = torch.ones_like(self.counts, dtype=torch.bool) if rows is None else rows.unsqueeze(-1)
        assert not (going & (self.counts >= self.ends)).any(), "a row is stepped behind its end"
        self.counts = self.counts + going
        over = self.counts >= self.ends
        entries = {"count": self.counts.clone(), "reward": self.counts.float(), "terminated": over}
        return TensorDict({**entries, "done": over.clone()}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


def flat_rows(value: torch.Tensor, batch: tuple[int, ...]) -> list[torch.Tensor]:
    return list(value.reshape(-1, *value.shape[len(batch) :]).unbind(0))
