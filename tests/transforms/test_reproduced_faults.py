"""Faults of TorchRL's transforms that were reproduced, and that are none here; most others stand with their class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Binary, Bounded, Composite, OneHot, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import (
    BinarizeReward,
    CatFrames,
    CatTensors,
    FlattenObservation,
    RandomTruncationTransform,
    RewardClipping,
    SelectTransform,
    StepCounter,
    TargetReturn,
    ToTensorImage,
)
from tensordict import TensorDict

from tests.transforms.envs import Team, Walk


class Drawn(EnvBase):
    """Whatever its specs say: entries are drawn from them, and it never ends."""

    def __init__(self, observation: Composite, reward: Any) -> None:
        super().__init__(batch_size=observation.shape)
        batch = observation.shape
        self.observation_spec = observation
        self.action_spec = Unbounded((*batch, 1))
        self.full_reward_spec = Composite(reward=reward, shape=batch)
        self.full_done_spec = Composite(done=Binary(1, (*batch, 1), dtype=torch.bool), shape=batch)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        fresh: TensorDict = self.observation_spec.rand().update(self.full_done_spec.zero())
        if tensordict is not None and "_reset" in tensordict:
            kept = tensordict.select(*fresh.keys(True, True))
            rows = tensordict["_reset"].squeeze(-1)
            return fresh.where(rows, kept)
        return fresh

    def _step(self, tensordict: Any) -> TensorDict:
        following: TensorDict = self.observation_spec.rand().update(self.full_done_spec.zero())
        return following.update(self.full_reward_spec.rand())

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(seed or 0)


def drawn(reward: Any = None, batch: tuple[int, ...] = (), **observed: Any) -> Drawn:
    """An environment that observes values of these specs."""
    specs = observed or {"seen": Unbounded((*batch, 1))}
    return Drawn(Composite(specs, shape=batch), Unbounded((*batch, 1)) if reward is None else reward)


def test_rewards_are_not_clipped_where_no_limit_is_given() -> None:
    env = TransformedEnv(drawn(), RewardClipping(out_keys=["clipped"]))
    check_env_specs(env)
    data = env.rollout(20)["next"]
    assert torch.equal(data["clipped"], data["reward"])


def test_bounded_rewards_are_clipped() -> None:
    env = TransformedEnv(drawn(Bounded(-2.0, 0.5, (1,))), RewardClipping(-1.0, 1.0))
    check_env_specs(env)
    spec: Any = env.full_reward_spec["reward"]
    assert (float(spec.space.low), float(spec.space.high)) == (-1.0, 0.5)


def test_several_rewards_are_told_from_none() -> None:
    env = TransformedEnv(drawn(Unbounded((3,))), BinarizeReward())
    check_env_specs(env)
    assert env.rollout(3)["next", "reward"].shape == (3, 3)


def test_bounds_stand_behind_one_another() -> None:
    pair = {"a": Bounded(-1.0, 2.0, (2,)), "b": Bounded(0.0, 5.0, (1,))}
    env = TransformedEnv(drawn(**pair), CatTensors(["b", "a"]))
    check_env_specs(env)
    spec: Any = env.observation_spec["observation_vector"]
    assert spec.space.low.tolist() == [0.0, -1.0, -1.0]
    assert spec.space.high.tolist() == [5.0, 2.0, 2.0]


def test_one_hot_rows_one_behind_the_other_are_no_one_hot() -> None:
    env = TransformedEnv(drawn(board=OneHot(4, (3, 4))), FlattenObservation(-2, -1, in_keys=["board"]))
    check_env_specs(env)
    spec = env.observation_spec["board"]
    assert spec.shape == (12,)
    assert not isinstance(spec, OneHot)


def test_keys_that_are_selected_are_there() -> None:
    with pytest.raises(KeyError, match="SelectTransform reads 'missing', but the environment has only"):
        _ = TransformedEnv(Walk(2), SelectTransform("missing")).observation_spec


def test_a_counter_that_nobody_sees_goes_on() -> None:
    env = TransformedEnv(Walk(2), Compose(StepCounter(max_steps=3), SelectTransform("position")))
    check_env_specs(env)
    assert "step_count" not in env.observation_spec.keys(True)
    assert env.rollout(9, break_when_any_done=True).shape[-1] <= 3


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_the_return_to_come_is_like_the_reward(shape: tuple[int, ...]) -> None:
    env = TransformedEnv(drawn(Unbounded(shape, dtype=torch.float64)), TargetReturn(10.0))
    check_env_specs(env)
    data = env.rollout(4)
    assert data["target_return"].dtype == torch.float64
    left = 10.0 - data["next", "reward"].sum(0)
    torch.testing.assert_close(data["next", "target_return"][-1], left, rtol=1e-12, atol=1e-12)


def test_frames_of_rows_that_are_reset_alone() -> None:
    env = TransformedEnv(Walk(2, 3), CatFrames(3, -1, in_keys=["position"], out_keys=["frames"]))
    root = env.rollout(3, break_when_any_done=False)[..., -1]["next"].exclude("reward")
    rows = torch.tensor([[True, False, False], [False, True, True]])
    again = env.reset(root.clone().set("_reset", rows.unsqueeze(-1)))
    assert torch.equal(again["frames"][~rows], root["frames"][~rows])
    assert torch.equal(again["frames"][rows], again["position"][rows].repeat(1, 3))


def test_the_same_transform_at_another_batch_size() -> None:
    stack = CatFrames(3, -1, in_keys=["position"], out_keys=["frames"])
    TransformedEnv(Walk(3), stack).rollout(2)
    other = TransformedEnv(Walk(2, 2), stack.clone())
    assert other.rollout(2)["frames"].shape == (2, 2, 2, 9)


def test_flags_of_agents_follow_a_random_end_of_the_team() -> None:
    env = TransformedEnv(Team(4), Compose(StepCounter(), RandomTruncationTransform(1, 3)))
    check_env_specs(env)
    following = env.rollout(6, break_when_any_done=False)["next"]
    ended = following["truncated"]
    assert ended.any()
    for flag in ("truncated", "done"):
        nested = following.get(("agents", flag), None)
        assert nested is None or nested[ended.expand(nested.shape[:-1])].all()


@pytest.mark.parametrize(
    ("make", "keywords"),
    [
        (CatTensors, {"unsqueeze_if_oor": True}),
        (ToTensorImage, {"shape_tolerant": True}),
        (RandomTruncationTransform, {"min_horizon": 1, "max_horizon": 2, "done_key": "done"}),
    ],
)
def test_keywords_that_are_not_taken(make: type, keywords: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        make(**keywords)
