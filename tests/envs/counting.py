"""Small hand-written environments."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from tensordict import TensorDict


class Counting(EnvBase):
    """Adds the action to a count that it keeps in the tensordict; ends at a limit."""

    def __init__(
        self, *, batch_size: tuple[int, ...] = (), limit: int = 5, device: str | None = None
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        self.limit = limit
        self.seeded: int | None = None
        self.action_spec = Bounded(-1.0, 1.0, shape=(*batch_size, 1), device=device)
        count = Unbounded(shape=(*batch_size, 1), dtype=torch.int64, device=device)
        self.observation_spec = Composite(
            count=count, observation=Unbounded(shape=(*batch_size, 1), device=device), shape=batch_size
        )
        self.state_spec = Composite(count=count.clone(), shape=batch_size)
        self.reward_spec = Unbounded(shape=(*batch_size, 1), device=device)
        flag = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool, device=device)
        self.full_done_spec = Composite(
            done=flag, terminated=flag.clone(), truncated=flag.clone(), shape=batch_size
        )

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        count = torch.zeros(*self.batch_size, 1, dtype=torch.int64, device=self.device)
        return TensorDict(
            {"count": count, "observation": count.float()}, batch_size=self.batch_size, device=self.device
        )

    def _step(self, tensordict: Any) -> TensorDict:
        count = tensordict["count"] + 1
        return TensorDict(
            {
                "count": count,
                "observation": count.float(),
                "reward": tensordict["action"] * 2,
                "terminated": count >= self.limit,
                "truncated": torch.zeros_like(count, dtype=torch.bool),
            },
            batch_size=self.batch_size,
            device=self.device,
        )

    def _set_seed(self, seed: int | None) -> None:
        self.seeded = seed


class Scripted(EnvBase):
    """Gives whatever entries a test wants: `scripted(next={...})`."""

    def __init__(
        self,
        *,
        reset: dict[str, Any] | None = None,
        next: dict[str, Any] | None = None,
        flags: tuple[str, ...] = ("done", "terminated", "truncated"),
        batch_size: tuple[int, ...] = (),
    ) -> None:
        super().__init__(batch_size=batch_size)
        self.given_reset = {"observation": torch.zeros(*batch_size, 2)} if reset is None else reset
        self.given_next = {} if next is None else next
        self.action_spec = Bounded(-1.0, 1.0, shape=(*batch_size, 1))
        self.observation_spec = Unbounded(shape=(*batch_size, 2))
        flag = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool)
        self.full_done_spec = Composite({name: flag.clone() for name in flags}, shape=batch_size)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return TensorDict({**self.given_reset, **kwargs}, batch_size=self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        entries = {
            "observation": torch.zeros(*self.batch_size, 2),
            "reward": torch.zeros(*self.batch_size, 1),
            **self.given_next,
        }
        return TensorDict(
            {key: value for key, value in entries.items() if value is not None}, batch_size=self.batch_size
        )

    def _set_seed(self, seed: int | None) -> None:
        pass


class Stateful(EnvBase):
    """Keeps its counts itself; `careless=True` ignores reset masks."""

    def __init__(self, *, batch_size: tuple[int, ...] = (3,), careless: bool = False) -> None:
        super().__init__(batch_size=batch_size)
        self.careless = careless
        self.count = torch.zeros(*batch_size, 1)
        self.action_spec = Bounded(-1.0, 1.0, shape=(*batch_size, 1))
        self.observation_spec = Unbounded(shape=(*batch_size, 1))

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None or self.careless else tensordict.get("_reset", None)
        fresh = torch.zeros_like(self.count)
        self.count = fresh if mask is None else torch.where(mask, fresh, self.count)
        return TensorDict({"observation": self.count.clone()}, batch_size=self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        self.count = self.count + 1
        return TensorDict(
            {
                "observation": self.count.clone(),
                "reward": torch.zeros_like(self.count),
                "terminated": self.count > 100,
            },
            batch_size=self.batch_size,
        )

    def _set_seed(self, seed: int | None) -> None:
        pass


class Grid(EnvBase):
    """Two agents with their own rewards and done flags under `agents`, and a shared done flag."""

    def __init__(self, *, batch_size: tuple[int, ...] = (), root_done: bool = True, limit: int = 3) -> None:
        super().__init__(batch_size=batch_size)
        self.limit = limit
        self.root_done = root_done
        shape = (*batch_size, 2)
        flag = Categorical(2, shape=(*shape, 1), dtype=torch.bool)
        self.full_action_spec = Composite(
            {("agents", "action"): Categorical(5, shape=shape)}, shape=batch_size
        )
        self.full_observation_spec = Composite(
            {
                ("agents", "observation"): Unbounded(shape=(*shape, 4)),
                "time": Unbounded(shape=(*batch_size, 1)),
            },
            shape=batch_size,
        )
        self.full_state_spec = Composite(time=Unbounded(shape=(*batch_size, 1)), shape=batch_size)
        self.full_reward_spec = Composite(
            {("agents", "reward"): Unbounded(shape=(*shape, 1))}, shape=batch_size
        )
        done: dict[Any, Any] = {
            ("agents", "done"): flag,
            ("agents", "terminated"): flag.clone(),
        }
        if root_done:
            done["done"] = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool)
        self.full_done_spec = Composite(done, shape=batch_size)

    def _observe(self, time: torch.Tensor) -> dict[Any, Any]:
        return {
            "time": time,
            "agents": {"observation": time[..., None].expand(*self.batch_size, 2, 4).clone()},
        }

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return TensorDict(self._observe(torch.zeros(*self.batch_size, 1)), batch_size=self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        time = tensordict["time"] + 1
        entries = self._observe(time)
        action = tensordict["agents", "action"]
        ended = (time >= self.limit)[..., None].expand(*self.batch_size, 2, 1).clone()
        entries["agents"] |= {"reward": action[..., None].float(), "terminated": ended}
        if self.root_done:
            entries["terminated"] = time >= self.limit
        return TensorDict(entries, batch_size=self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass
