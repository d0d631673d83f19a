"""Small deterministic environments, of which the same dynamics can be given to TorchRL's classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

LIMIT = 3.0


def walk_reset(batch: torch.Size, dtype: torch.dtype = torch.float32) -> Tensor:
    """Positions at the start, another one in each row."""
    rows = torch.arange(batch.numel(), dtype=dtype).reshape(batch) * 0.125
    return torch.stack([rows, -rows, rows * 0.5], -1)


def walk_step(position: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The position, the reward and whether it is over."""
    following = position * 1.25 + action
    reward = following.sum(-1, keepdim=True)
    return following, reward, (following.abs() > LIMIT).any(-1, keepdim=True)


class Walk(EnvBase):
    """A batched random walk that ends when it has gone too far; the position is observed and carried."""

    def __init__(self, *batch: int, dtype: torch.dtype = torch.float32, bounded: bool = False) -> None:
        super().__init__(batch_size=batch)
        spec = (
            Bounded(-10.0, 10.0, (*batch, 3), dtype=dtype) if bounded else Unbounded((*batch, 3), dtype=dtype)
        )
        self.observation_spec = Composite(position=spec, shape=batch)
        self.state_spec = Composite(position=spec.clone(), shape=batch)
        self.action_spec = Bounded(-1.0, 1.0, (*batch, 3), dtype=dtype)
        self.reward_spec = Unbounded((*batch, 1), dtype=dtype)
        self.done_spec = Composite(
            {key: Categorical(2, shape=(*batch, 1), dtype=torch.bool) for key in ("done", "terminated")},
            shape=batch,
        )
        self.dtype = dtype

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return TensorDict({"position": walk_reset(self.batch_size, self.dtype)}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        position, reward, over = walk_step(tensordict["position"], tensordict["action"])
        entries = {"position": position, "reward": reward, "terminated": over, "done": over.clone()}
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


class Team(EnvBase):
    """Two agents with rewards and done flags of their own, below those of the team."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=batch)
        flag = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        flags = Categorical(2, shape=(*batch, 2, 1), dtype=torch.bool)
        names = ("done", "terminated", "truncated")
        self.observation_spec = Composite(
            agents=Composite(x=Unbounded((*batch, 2, 1)), shape=(*batch, 2)), shape=batch
        )
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Composite(
            agents=Composite(action=Bounded(-1.0, 1.0, (*batch, 2, 1)), shape=(*batch, 2)), shape=batch
        )
        self.reward_spec = Composite(
            agents=Composite(reward=Unbounded((*batch, 2, 1)), shape=(*batch, 2)), shape=batch
        )
        self.done_spec = Composite(
            {name: flag.clone() for name in names}
            | {"agents": Composite({name: flags.clone() for name in names}, shape=(*batch, 2))},
            shape=batch,
        )

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        agents = TensorDict({"x": torch.zeros(*self.batch_size, 2, 1)}, (*self.batch_size, 2))
        return TensorDict({"agents": agents}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        x = tensordict["agents", "x"] + tensordict["agents", "action"]
        agents = TensorDict({"x": x, "reward": x * 2, "terminated": x > 1.5}, (*self.batch_size, 2))
        over = agents["terminated"].all(-2)
        return TensorDict({"agents": agents, "terminated": over}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


def rollouts_alike(envs: Iterable[Any], steps: int) -> list[TensorDictBase]:
    """A rollout of each of two environments, which keep to their specs and give the same for the same seeds."""
    found = []
    for env in envs:
        check_env_specs(env)
        env.set_seed(3)
        torch.manual_seed(1)
        found.append(env.rollout(steps, break_when_any_done=False))
    assert {*found[0].keys(True, True)} == {*found[1].keys(True, True)}
    for key in found[0].keys(True, True):
        torch.testing.assert_close(found[0][key], found[1][key], msg=str(key))
    return found
