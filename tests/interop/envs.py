"""Small environments to convert to other libraries."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import specgen_std
import torch
from specgen_runtime.envs import EnvBase, GeneratedEnv
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
)
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid

N = 3
"""How many actions `Walk` has."""


def generated() -> Iterator[type[Any]]:
    """The environments and chains of the standard library."""
    for module in pkgutil.walk_packages(specgen_std.__path__, "specgen_std."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(found, GeneratedEnv) and found.__module__ == module.name:
                yield found


def assert_same(left: Any, right: Any) -> None:
    """Two tensordicts have the same keys, and the same numbers bit by bit."""
    assert left.batch_size == right.batch_size
    assert set(left.keys(True, True)) == set(right.keys(True, True))
    for key in left.keys(True, True):
        first, second = left.get(key), right.get(key)
        if isinstance(first, torch.Tensor):
            assert first.dtype == second.dtype, key
            assert torch.equal(first, second), key
        else:
            assert first == second, key


class Walk(EnvBase):
    """Walks by one-hot actions from a random place; each row of a batch draws from a generator of its own.

    Row i of a batch with the seed s does what a single environment with the seed s + i does.
    """

    def __init__(self, n: int | None = None, *, masked: bool = False, limit: int = 6) -> None:
        super().__init__(batch_size=() if n is None else (n,))
        self.masked, self.limit = masked, limit
        self.generators = [torch.Generator().manual_seed(i) for i in range(n or 1)]
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        entries: dict[str, TensorSpec] = {
            "observation": Bounded(-50.0, 50.0, (2,)),
            "place": Unbounded((2,)),
            "time": Unbounded((1,), dtype=torch.int64),
        }
        if masked:
            entries["action_mask"] = Binary(N, dtype=torch.bool)
        self.action_spec_unbatched = OneHot(N)
        self.observation_spec_unbatched = Composite(entries)
        self.state_spec_unbatched = Composite({name: entries[name] for name in ("place", "time")})
        self.reward_spec_unbatched = Unbounded((1,))
        self.done_spec_unbatched = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())

    def observe(self, place: torch.Tensor, time: torch.Tensor) -> dict[str, torch.Tensor]:
        entries = {"observation": place.clamp(-50, 50), "place": place, "time": time}
        if self.masked:
            entries["action_mask"] = torch.arange(N) != (time % N)
        return entries

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        rows = [True] * len(self.generators) if mask is None else mask.reshape(-1).tolist()
        drawn = [
            torch.rand(2, generator=each) if fresh else torch.zeros(2)
            for each, fresh in zip(self.generators, rows, strict=True)
        ]
        place = torch.stack(drawn).reshape(*self.batch_size, 2)
        time = torch.zeros((*self.batch_size, 1), dtype=torch.int64)
        return TensorDict(self.observe(place + kwargs.get("shift", 0.0), time), batch_size=self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        move = tensordict["action"].int().argmax(-1, keepdim=True) - 1
        place, time = tensordict["place"] + move, tensordict["time"] + 1
        return TensorDict(
            {
                **self.observe(place, time),
                "reward": place.sum(-1, keepdim=True),
                "terminated": place.sum(-1, keepdim=True) > 4,
                "truncated": time >= self.limit,
            },
            batch_size=self.batch_size,
        )

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            for place, each in enumerate(self.generators):
                each.manual_seed(seed + place)


class Team(Grid):
    """Agents with a reward and an end in common."""

    def __init__(self) -> None:
        super().__init__()
        self.full_reward_spec = Composite(reward=Unbounded((1,)))

    def _step(self, tensordict: Any) -> TensorDict:
        result = super()._step(tensordict)
        return result.set("reward", result.pop(("agents", "reward")).sum(-2))


class Only(Counting):
    """Has nothing but its state to observe."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(count=self.observation_spec["count"].clone())

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return super()._reset(tensordict).exclude("observation")

    def _step(self, tensordict: Any) -> TensorDict:
        return super()._step(tensordict).exclude("observation")


class Levers(Counting):
    """Has actions of several kinds, nested and not."""

    def __init__(self) -> None:
        super().__init__()
        self.full_action_spec = Composite(
            {
                "force": Bounded(-1.0, 1.0, (1,)),
                ("hand", "fingers"): MultiOneHot([2, 3]),
                ("hand", "open"): Binary(4),
                "gear": Categorical(5, dtype=torch.int32),
            }
        )

    def _step(self, tensordict: Any) -> TensorDict:
        assert self.full_action_spec.is_in(tensordict.select(*self.action_keys))
        return super()._step(tensordict.set("action", tensordict["force"]))


class Restarting(Counting):
    """Begins the next episode within the step that ends one."""

    def _step(self, tensordict: Any) -> TensorDict:
        following = super()._step(tensordict)
        if following["terminated"].any():
            following.update(super()._reset(None))
        return following


class Telling(Counting):
    """Gives texts too."""

    def __init__(self) -> None:
        super().__init__()
        observed = self.observation_spec.clone()
        observed["text"] = NonTensor((), example_data="a")
        self.observation_spec = observed

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return super()._reset(tensordict).set("text", "start")

    def _step(self, tensordict: Any) -> TensorDict:
        return super()._step(tensordict).set("text", f"step {int(tensordict['count'])}")


class Growing(Counting):
    """Gives observations of another size at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(
            count=self.observation_spec["count"].clone(), observation=Unbounded((-1,))
        )

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return super()._reset(tensordict).set("observation", torch.zeros(1))

    def _step(self, tensordict: Any) -> TensorDict:
        size = int(tensordict["count"]) + 2
        return super()._step(tensordict).set("observation", torch.zeros(size))
