"""An environment whose observations and actions are of any kind of spec, and specs of every kind for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Unbounded,
)
from tensordict import NonTensorData, TensorClass, TensorDict


class Drawing(EnvBase):
    """Observes draws of a spec; the environments of a batch end one after the other, the first at a limit.

    Args:
        observation: without batch dimensions; a `count` is added.
        action: likewise.
    """

    def __init__(
        self,
        observation: Composite,
        action: Composite,
        *,
        batch_size: tuple[int, ...] = (),
        limit: int = 3,
        device: str | None = None,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        count = Unbounded((1,), dtype=torch.int64)
        self.observation_spec_unbatched = observation
        self.observation_spec["count"] = count.expand(*batch_size, 1).to(device)
        self.state_spec_unbatched = Composite(count=count)
        self.action_spec_unbatched = action
        self.full_done_spec["truncated"] = self.full_done_spec["done"].clone()
        self.limits = limit + torch.arange(self.numel()).reshape(*batch_size, 1)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        return self.observation_spec.rand().update(self.state_spec.zero())

    def _step(self, tensordict: Any) -> TensorDict:
        count = tensordict["count"] + 1
        drawn = self.observation_spec.rand().update({"count": count, "truncated": count >= self.limits})
        return drawn.update(self.full_reward_spec.rand())

    def _set_seed(self, seed: int | None) -> None:
        pass


class Message(TensorClass):
    text: str
    mark: torch.Tensor


def agents(entry: Callable[[int], Any]) -> Any:
    """Three agents, of which no two are alike."""
    stack: Any = torch.stack
    return stack([entry(place) for place in range(3)])


def agent_view(place: int) -> Composite:
    own: dict[Any, Any] = {f"only_{place}": Unbounded((place + 1,)), ("deep", "x"): Binary(place + 1)}
    return Composite({"position": Bounded(-1, 1, (place + 2,)), "alike": Unbounded((2,)), **own})


def words() -> Choice:
    return Choice([NonTensorData(word) for word in ("left", "right", "stay")])


ACTION = Composite(action=Bounded(-1, 1, (2,)))
OBSERVATION = Composite(observation=Unbounded((3,)))

# Kind: observation and action.
KINDS: dict[str, tuple[Composite, Composite]] = {
    "text": (
        Composite(text=NonTensor((), example_data="hello"), deep={"text": NonTensor((2,), example_data=3)}),
        ACTION,
    ),
    "text actions": (
        Composite(text=NonTensor((), example_data="hello")),
        Composite(action=NonTensor((), example_data="do")),
    ),
    "agents": (
        Composite(agents=agents(agent_view)),
        Composite(agents=agents(lambda place: Composite(action=Bounded(-1, place, (place + 1,))))),
    ),
    "agents that differ in bounds": (
        Composite(agents=agents(lambda place: Composite(position=Bounded(0, place + 1, (2,))))),
        Composite(agents=agents(lambda place: Composite(action=Categorical(place + 2)))),
    ),
    "stacked": (
        Composite(x=agents(lambda place: Bounded(0, place + 1, (2,)))),
        Composite(action=agents(lambda place: Categorical(place + 2))),
    ),
    "stacked, of different sizes": (
        Composite(x=agents(lambda place: Unbounded((place + 1,)))),
        Composite(action=agents(lambda place: Bounded(-1, 1, (place + 1,)))),
    ),
    "several classes": (
        Composite(a=MultiOneHot([2, 3]), b=MultiCategorical([2, 3])),
        Composite(
            one=MultiOneHot([2, 3]), other=MultiCategorical([[2, 3], [4, 5]], shape=(2, 2)), last=OneHot(4)
        ),
    ),
    "choice": (
        Composite(x=Choice([Bounded(0, 1, (2,)), Bounded(5, 6, (2,))]), word=words()),
        Composite(action=Choice([Categorical(3), Categorical(2)])),
    ),
    "choice of data": (OBSERVATION, Composite(action=words())),
    "variable": (Composite(history=Unbounded((-1, 3)), x=Bounded(0, 1, (2, -1))), ACTION),
    "nothing known": (
        Composite(
            info=None, deep={"info": None, "x": Unbounded((2,))}, empty={}, observation=Unbounded((3,))
        ),
        Composite(action=Categorical(3), hint=None),
    ),
    "class of data": (
        Composite(
            message=Composite(text=NonTensor((), example_data="hi"), mark=Unbounded((2,)), data_cls=Message)
        ),
        ACTION,
    ),
}


# A value of a Choice belongs to one choice as a whole: rows that end at different times would mix them. Tensors of
# different sizes are stacked along the first dimension only.
SINGLE = {"choice", "stacked, of different sizes"}


def made(kind: str, **kwargs: Any) -> Drawing:
    return Drawing(*KINDS[kind], **kwargs)
