"""Entries that grow within an episode: a reset leaves nothing of the longer ones, in one environment and in several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.envs import EnvBase, ParallelEnv, SerialEnv, check_env_specs
from specgen_runtime.envs.packing import update_with
from specgen_runtime.specs import Binary, Composite, NonTensor, Unbounded
from specgen_runtime.transforms import Transform, TransformedEnv
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, assert_close, tensorclass

BATCHES: list[Callable[..., Any]] = [SerialEnv, partial(ParallelEnv, mp_start_method="fork")]


class Trail(EnvBase):
    """Shows all places where it has been, the first of them 0; ends behind `length` steps."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.observation_spec = Composite(observation=Unbounded((-1, 2)))
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Unbounded((2,))
        self.reward_spec = Unbounded((1,))
        self.done_spec = Binary(shape=(1,), dtype=torch.bool)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return TensorDict({"observation": torch.zeros(1, 2), "done": torch.zeros(1, dtype=torch.bool)})

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        seen = torch.cat([tensordict["observation"], tensordict["action"].unsqueeze(0)])
        done = torch.tensor([len(seen) > self.length])
        return TensorDict({"observation": seen, "reward": torch.ones(1), "done": done})

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


@tensorclass
class Message:
    text: str


class Said(Transform):
    """Keeps a message for each step of the episode."""

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec["said"] = Composite(text=NonTensor((-1,)), shape=(-1,), data_cls=Message)
        return observation_spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset.set("said", torch.stack([Message(text="0"), Message(text="1")]))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        said = [*tensordict["said"].unbind(0), Message(text=str(len(tensordict["said"])))]
        return next_tensordict.set("said", torch.stack(said))


class Steps(EnvBase):
    """Ends behind `length` steps."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.state_spec = self.observation_spec.clone()
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.done_spec = Binary(shape=(1,), dtype=torch.bool)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return TensorDict({"observation": torch.zeros(1), "done": torch.zeros(1, dtype=torch.bool)})

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        count = tensordict["observation"] + 1
        return TensorDict({"observation": count, "reward": torch.ones(1), "done": count >= self.length})

    def _set_seed(self, seed: int | None) -> None: ...


def talking(length: int = 3) -> TransformedEnv[Any, Any]:
    return TransformedEnv(Steps(length), Said())


def test_messages_begin_anew_with_each_episode() -> None:
    env = talking()
    check_env_specs(env)
    lengths = [
        len(step["said"])
        for batch in Collector(env, None, frames_per_batch=4, total_frames=8)
        for step in batch
    ]
    assert lengths == [2, 3, 4, 2, 3, 4, 2, 3]


@pytest.mark.parametrize("batched", BATCHES)
def test_messages_of_several_environments(batched: Callable[..., Any]) -> None:
    env = batched(2, [partial(talking, 2), partial(talking, 3)])
    try:
        check_env_specs(env)
        rows = env.rollout(6, break_when_any_done=False, return_contiguous=False)
    finally:
        env.close()
    assert [len(step["said"]) for step in rows[0].unbind(0)] == [2, 3, 2, 3, 2, 3]
    assert [len(step["said"]) for step in rows[1].unbind(0)] == [2, 3, 4, 2, 3, 4]
    assert rows[1][2]["next", "said"][-1].text == "4"


@pytest.mark.parametrize("batched", BATCHES)
def test_rows_whose_sizes_differ(batched: Callable[..., Any]) -> None:
    env = batched(2, [partial(Trail, 2), partial(Trail, 4)])
    try:
        check_env_specs(env)
        rows = env.rollout(5, break_when_any_done=False, return_contiguous=False)
        root = env.step(env.rand_action(env.reset()))["next"].exclude("reward")
        kept = root[1]["observation"].clone()
        root["_reset"] = torch.tensor([[True], [False]])
        root = env.reset(root)
    finally:
        env.close()
    assert [len(step["observation"]) for step in rows[0].unbind(0)] == [1, 2, 1, 2, 1]
    assert [len(step["observation"]) for step in rows[1].unbind(0)] == [1, 2, 3, 4, 1]
    assert root[0]["observation"].tolist() == [[0.0, 0.0]]
    assert root[1]["observation"].equal(kept)


def test_a_nest_of_another_size_is_replaced() -> None:
    old = TensorDict({"a": TensorDict({"x": torch.ones(3), "y": torch.ones(3)}, [3]), "b": torch.ones(2)})
    old["deep", "c"] = TensorDict({"z": torch.ones(4)}, [4])
    old["deep", "stays"] = torch.ones(1)
    fresh = TensorDict({"a": TensorDict({"x": torch.zeros(2)}, [2])})
    fresh["deep", "c"] = TensorDict({"z": torch.zeros(1)}, [1])
    assert update_with(old, fresh) is old
    assert set(old["a"].keys()) == {"x"}
    assert old["a"].batch_size == (2,)
    assert old["deep", "c", "z"].tolist() == [0.0]
    assert old["deep", "stays"].tolist() == [1.0]
    same = TensorDict({"a": TensorDict({"y": torch.ones(2)}, [2])})
    assert set(update_with(old, same)["a"].keys()) == {"x", "y"}


def test_a_tensordict_that_cannot_hold_what_is_fresh() -> None:
    old = TensorDict({"a": torch.ones(2, 3), "b": torch.arange(2)}, [2])
    rows = [TensorDict({"a": torch.zeros(1)}), TensorDict({"a": torch.zeros(2)})]
    made = update_with(old, LazyStackedTensorDict(*rows))
    assert [row["a"].shape[0] for row in made.unbind(0)] == [1, 2]
    assert made["b"].tolist() == [0, 1]
    alike = LazyStackedTensorDict(*(TensorDict({"a": torch.zeros(3)}) for _ in range(2)))
    assert update_with(old, alike) is old
    assert_close(old, TensorDict({"a": torch.zeros(2, 3), "b": torch.arange(2)}, [2]))


def _nests(*sizes: int) -> LazyStackedTensorDict:
    return LazyStackedTensorDict(*(TensorDict({"x": torch.full((size,), 1.0)}, [size]) for size in sizes))


@pytest.mark.parametrize("old", [_nests(1, 2), _nests(2, 2), TensorDict({"x": torch.zeros(2, 3)}, [2, 3])])
@pytest.mark.parametrize(
    "fresh",
    [_nests(3, 4), _nests(3, 3), _nests(1, 2), TensorDict({"x": torch.ones(2, 4)}, [2])],
    ids=["longer", "even", "short", "fewer_dims"],
)
def test_nests_of_rows_that_differ_in_size_are_replaced(old: Any, fresh: Any) -> None:
    around = TensorDict({"a": old.clone(), "b": torch.ones(2)}, [2])
    assert update_with(around, TensorDict({"a": fresh.clone()}, [2])) is around
    assert [row["a", "x"].tolist() for row in around.unbind(0)] == [
        row["x"].tolist() for row in fresh.unbind(0)
    ]
    assert around["b"].tolist() == [1, 1]
    rows = LazyStackedTensorDict(*(TensorDict({"deep": {"a": row.clone()}}) for row in old.unbind(0)))
    assert update_with(rows, TensorDict({"deep": TensorDict({"a": fresh.clone()}, [2])}, [2])) is rows
    assert [row["deep", "a", "x"].tolist() for row in rows.unbind(0)] == [
        row["x"].tolist() for row in fresh.unbind(0)
    ]
