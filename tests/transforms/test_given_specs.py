"""Spec methods outside of environments: what they need is in the specs that they are given."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import Compose
from specgen_std.transforms import (
    CatFrames,
    CatTensors,
    DoubleToFloat,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    Stack,
    StepCounter,
    TimeMaxPool,
)

from tests.transforms.envs import Walk


def test_groups() -> None:
    image = Bounded(0, 255, (1, 16, 16))
    frames = CatFrames(N=4, dim=-3, in_keys=["a", "b"])
    made = frames.transform_observation_spec(Composite(a=image, b=image.clone(), c=Unbounded(2)))
    assert made["a"] == made["b"] == Bounded(0, 255, (4, 16, 16))
    assert made["c"] == Unbounded(2)
    scaled = RewardScaling(0.0, 2.0).transform_reward_spec(Composite(reward=Bounded(0.0, 1.0, (1,))))
    assert scaled["reward"] == Bounded(0.0, 2.0, (1,))
    action = Composite(action=Bounded(0.0, 1.0, (3,), dtype=torch.float64))
    assert (
        DoubleToFloat(in_keys_inv=["action"]).transform_action_spec(action)["action"].dtype == torch.float32
    )
    chain = Compose(ObservationNorm(0.0, 2.0, in_keys=["a"]), CatFrames(N=2, dim=-1, in_keys=["a"]))
    assert chain.transform_observation_spec(Composite(a=Bounded(0.0, 1.0, (3,))))["a"] == Bounded(
        0.0, 2.0, (6,)
    )


def test_the_spec_of_the_only_entry() -> None:
    norm = ObservationNorm(1.0, 2.0, in_keys=["a"])
    assert norm.transform_observation_spec(Bounded(0.0, 1.0, (3,))) == Bounded(1.0, 3.0, (3,))
    assert RewardScaling(1.0, 2.0, in_keys=["r"]).transform_reward_spec(Unbounded(1)) == Unbounded(1)
    with pytest.raises(TypeError, match="RewardScaling reads several entries, or says not which"):
        RewardScaling(1.0, 2.0, in_keys=["r", "s"]).transform_reward_spec(Unbounded(1))
    assert RewardScaling(1.0, 2.0).transform_reward_spec(Bounded(0.0, 1.0, (1,))) == Bounded(1.0, 3.0, (1,))


@pytest.mark.parametrize("del_keys", [True, False])
@pytest.mark.parametrize("key", ["a", ("agents", "a")])
def test_the_spec_of_what_is_written_under_a_key_of_its_own(
    del_keys: bool, key: str | tuple[str, ...]
) -> None:
    image = Bounded(0.0, 1.0, (4, 32))
    stack = Stack([key], "b", dim=-2, del_keys=del_keys)
    assert stack.transform_observation_spec(image) == Bounded(0.0, 1.0, (4, 1, 32))
    assert CatTensors([key], ("c", "b"), del_keys=del_keys).transform_observation_spec(image) == image


def test_groups_that_lack_what_is_read_stay() -> None:
    flags = Composite(done=Unbounded((2, 1), dtype=torch.bool), shape=(2,))
    states = Composite(position=Unbounded((2, 3)), shape=(2,))
    for transform in (CatFrames(N=4, dim=-1, in_keys=["a"]), TimeMaxPool(T=3), RewardSum()):
        assert transform.transform_done_spec(flags.clone()) == flags
    for transform in (CatFrames(N=4, dim=-1, in_keys=["a"]), TimeMaxPool(T=3)):
        assert transform.transform_state_spec(states.clone()) == states
        assert transform.transform_observation_spec(states.clone()) == states
    rewards = Composite(reward=Unbounded((2, 1)), shape=(2,))
    assert StepCounter(3).transform_reward_spec(rewards.clone()) == rewards
    for transform, key in ((StepCounter(3), "done"), (RewardSum(), "reward")):
        for method in (transform.transform_observation_spec, transform.transform_state_spec):
            with pytest.raises(KeyError, match=f"{type(transform).__name__} reads '{key}'"):
                method(states.clone())  # a count would be missing


def test_environments_are_asked_first() -> None:
    env = Walk(2, bounded=True).append_transform(ObservationNorm(0.0, 2.0, in_keys=["position"]))
    assert env.observation_spec["position"] == Bounded(-20.0, 20.0, (2, 3))
