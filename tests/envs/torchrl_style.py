"""Environments written as TorchRL's users write them, in all the ways that are in use."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Binary, Bounded, Categorical, Composite, NonTensor, OneHot, Unbounded
from tensordict import TensorClass, TensorDict


class SpecsOnTheClass(EnvBase):
    """`__new__`, written as a class method, leaves the specs on the class."""

    @classmethod
    def __new__(cls, *args: Any, n: int = 4, **kwargs: Any) -> Any:
        batch_size = kwargs.setdefault("batch_size", torch.Size([]))
        cls._output_spec = Composite(
            full_reward_spec=Unbounded((*batch_size, 1)),
            full_done_spec=Composite(
                terminated=Binary(1, (*batch_size, 1), dtype=torch.bool), shape=batch_size
            ),
            full_observation_spec=Composite(observation=Unbounded((*batch_size, 3)), shape=batch_size),
            shape=batch_size,
        )
        cls._input_spec = Composite(
            full_action_spec=Composite(action=OneHot(n, (*batch_size, n)), shape=batch_size), shape=batch_size
        )
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, n: int = 4, batch_size: Any = (), device: Any = "cpu") -> None:
        super().__init__(device=device)
        self.is_closed = False
        self.count = torch.zeros((*self.batch_size, 1))

    def _reset(self, tensordict: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.count = self.count * 0 if mask is None else self.count * ~mask
        return TensorDict(
            {"observation": self.count.repeat_interleave(3, -1)}, self.batch_size, device=self.device
        )

    def _step(self, tensordict: Any) -> TensorDict:
        assert (tensordict["action"].sum(-1) == 1).all()
        self.count = self.count + 1
        ended = self.count >= 4
        return TensorDict(
            {
                "observation": self.count.repeat_interleave(3, -1),
                "reward": torch.ones(*self.batch_size, 1),
                "done": ended,
                "terminated": ended.clone(),
            },
            self.batch_size,
            device=self.device,
        )

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


class AnyBatch(EnvBase):
    """Works on tensordicts of any batch size: says so to `__new__`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls, *args, _batch_locked=False, **kwargs)

    def __init__(self, device: Any = None) -> None:
        super().__init__(device=device)
        self.observation_spec = Composite(count=Unbounded((1,), dtype=torch.int32))
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Binary(1, (1,))
        self.done_spec = Categorical(2, (1,), dtype=torch.bool)
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict: Any) -> TensorDict:
        shape = () if tensordict is None else tensordict.shape
        return TensorDict({"count": torch.zeros(*shape, 1, dtype=torch.int32)}, shape)

    def _step(self, tensordict: Any) -> TensorDict:
        count = tensordict["count"] + 1
        return TensorDict(
            {"count": count, "done": count > 3, "reward": torch.ones(*tensordict.shape, 1)}, tensordict.shape
        )

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


class Terse(EnvBase):
    """Rewards and flags without their last dimension, results without a batch size, flags of other names."""

    def __init__(self, batch_size: tuple[int, ...] = (), *, locked: bool = True) -> None:
        super().__init__(batch_size=batch_size, _batch_locked=locked, run_type_checks=True)
        self.observation_spec = Composite(x=Unbounded((*batch_size, 2)), shape=batch_size)
        self.action_spec = Bounded(-1, 1, (*batch_size, 1))
        self.reward_spec = Unbounded((*batch_size, 1))
        flag = Categorical(2, (*batch_size, 1), dtype=torch.bool)
        self.done_spec = Composite(fell=flag, won=flag.clone(), shape=batch_size)
        self.count = torch.zeros(batch_size)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.count = torch.zeros(self.batch_size) if mask is None else self.count * ~mask.squeeze(-1)
        return TensorDict({"x": self.observed()})

    def observed(self) -> torch.Tensor:
        return self.count.unsqueeze(-1).expand(*self.batch_size, 2).clone()

    def _step(self, tensordict: Any) -> TensorDict:
        self.count = self.count + 1
        return TensorDict({"x": self.observed(), "reward": self.count.clone(), "fell": self.count >= 3})

    def _set_seed(self, seed: int | None) -> None:
        pass


class Bare(EnvBase):
    """Sets no specs and gives nothing."""

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return TensorDict(batch_size=self.batch_size, device=self.device)

    def _step(self, tensordict: Any) -> TensorDict:
        return TensorDict(batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        pass


class Early(EnvBase):
    """Sets its specs before it calls the constructor of the base; talks."""

    def __init__(self, **kwargs: Any) -> None:
        self.observation_spec = Composite(observation=NonTensor(example_data="hello", shape=()))
        self.full_action_spec = Composite(action=NonTensor(example_data="go", shape=()))
        self.reward_spec = Unbounded((1,), dtype=torch.float)
        super().__init__(**kwargs)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return TensorDict().set("observation", "hello")

    def _step(self, tensordict: Any) -> TensorDict:
        assert isinstance(tensordict["action"], str)
        return TensorDict(reward=torch.ones(1), done=torch.zeros(1, dtype=torch.bool)).set(
            "observation", "again"
        )

    def _set_seed(self, seed: int | None) -> None:
        pass


class Growing(EnvBase):
    """Its observation grows from step to step."""

    def __init__(self) -> None:
        super().__init__(batch_size=())
        self.observation_spec = Composite(observation=Unbounded((3, -1, 2)))
        self.action_spec = Bounded(-1, 1, (2,))
        self.full_done_spec = Composite(
            {name: Binary(1, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        )
        self.reward_spec = Unbounded((1,))
        self.count = 0

    def _observed(self) -> TensorDict:
        return TensorDict({"observation": torch.full((3, self.count + 1, 2), float(self.count))})

    def _reset(self, tensordict: Any = None) -> TensorDict:
        self.count = 0
        return self._observed().update(self.done_spec.zero())

    def _step(self, tensordict: Any) -> TensorDict:
        self.count += 1
        flags = self.full_done_spec.zero() | (self.count >= 4)
        return self._observed().update(flags).update(self.full_reward_spec.zero())

    def _set_seed(self, seed: int | None) -> None:
        pass


class Note(TensorClass):
    text: str
    mark: torch.Tensor


class Noting(AnyBatch):
    """Observes an instance of a tensorclass."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return EnvBase.__new__(cls, *args, **kwargs)

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec["note"] = Composite(
            text=NonTensor(example_data="hi", shape=()), mark=Unbounded((2,)), data_cls=Note
        )

    def _reset(self, tensordict: Any) -> TensorDict:
        return super()._reset(tensordict).set("note", Note("begin", torch.zeros(2)))

    def _step(self, tensordict: Any) -> TensorDict:
        mark = tensordict["note"].mark + 1
        return super()._step(tensordict).set("note", Note("go on", mark))


class Restless(EnvBase):
    """Resets itself: where it is done, it observes the beginning of the next episode."""

    def __init__(self, batch_size: tuple[int, ...] = (), limit: int = 3) -> None:
        super().__init__(batch_size=batch_size)
        self.limits = limit + torch.arange(self.numel()).reshape(*batch_size, 1)
        self.observation_spec = Composite(
            x=Unbounded((*batch_size, 1)),
            n=Unbounded((*batch_size, 1), dtype=torch.int64),
            flag=Binary(1, (*batch_size, 1), dtype=torch.bool),
            shape=batch_size,
        )
        self.action_spec = Bounded(-1, 1, (*batch_size, 1))
        self.done_spec = Categorical(2, (*batch_size, 1), dtype=torch.bool)
        self.count = torch.zeros(*batch_size, 1)
        self.resets = 0

    def _observed(self) -> dict[str, torch.Tensor]:
        return {"x": self.count.clone(), "n": self.count.long(), "flag": self.count == 0}

    def _reset(self, tensordict: Any = None) -> TensorDict:
        if tensordict is not None and "_reset" in tensordict:
            raise AssertionError("it does so itself")
        self.resets += 1
        self.count = torch.zeros(*self.batch_size, 1)
        return TensorDict(self._observed(), self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        self.count = self.count + 1
        done = self.count >= self.limits
        self.count = self.count * ~done
        return TensorDict({**self._observed(), "reward": done.float() + 1, "done": done}, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass
