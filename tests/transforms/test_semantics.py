"""Carries, resets, done flags and specs of transformed environments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Unbounded
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    DoubleToFloat,
    InitTracker,
    ObservationNorm,
    RenameTransform,
    RewardScaling,
    RewardSum,
    StepCounter,
)
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Team, Walk, walk_reset, walk_step

BATCHES = [(), (1,), (3,), (7,), (4, 3)]


@pytest.mark.parametrize("batch", BATCHES)
def test_specs_fit_the_data(batch: tuple[int, ...]) -> None:
    chain = Compose(
        InitTracker(),
        StepCounter(max_steps=4),
        RewardSum(),
        ObservationNorm([0.0, 1.0, 2.0], 2.0, ["position"]),
        RewardScaling(0.5, 0.1),
    )
    env = TransformedEnv(Walk(*batch, bounded=True), chain)
    check_env_specs(env)
    assert env.rollout(6, break_when_any_done=False).batch_size == (*batch, 6)


@pytest.mark.parametrize("batch", BATCHES)
def test_an_observation_and_a_reward_swap_names(batch: tuple[int, ...]) -> None:
    base = Walk(*batch)
    env = TransformedEnv(base, RenameTransform(["position", "reward"], ["reward", "position"]))
    assert "reward" not in env.full_reward_spec.keys()  # noqa: SIM118
    assert env.full_reward_spec["position"] == base.full_reward_spec["reward"]
    assert "position" not in env.full_observation_spec.keys()  # noqa: SIM118
    assert env.full_observation_spec["reward"] == base.full_observation_spec["position"]
    check_env_specs(env)
    root = env.reset()
    assert "reward" in root
    assert "position" not in root


@pytest.mark.parametrize("batch", BATCHES)
def test_rows_reset_alone(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), Compose(InitTracker(), StepCounter(), RewardSum()))
    torch.manual_seed(0)
    root = env.reset()
    for _ in range(3):
        _, root = env.step_and_maybe_reset(env.rand_action(root))
    mask = torch.rand(*batch, 1) < 0.5
    before = root.clone()
    after = env.reset(root.clone().set("_reset", mask))
    assert "_reset" not in after
    fresh = env.reset()
    for key in ("position", "is_init", "step_count", "episode_reward", "done"):
        expected = torch.where(mask, fresh[key], before[key])
        assert torch.equal(after[key], expected), key


def test_values() -> None:
    env = TransformedEnv(
        Walk(3), Compose(InitTracker(), StepCounter(max_steps=2), RewardSum(), RewardScaling(1.0, 0.5))
    )
    torch.manual_seed(0)
    data = env.rollout(4, break_when_any_done=False)
    position = walk_reset(torch.Size([3]))
    total = torch.zeros(3, 1)
    count = torch.zeros(3, 1, dtype=torch.int64)
    fresh = torch.ones(3, 1, dtype=torch.bool)
    for time in range(4):
        now = data[:, time]
        following, reward, over = walk_step(position, now["action"])
        assert torch.equal(now["position"], position)
        assert torch.equal(now["is_init"], fresh)
        assert torch.equal(now["next", "reward"], reward * 0.5 + 1.0)
        assert torch.equal(now["next", "episode_reward"], total + reward)
        assert torch.equal(now["next", "step_count"], count + 1)
        assert not now["next", "is_init"].any()
        assert torch.equal(now["next", "terminated"], over)
        assert torch.equal(now["next", "truncated"], count + 1 >= 2)
        done = over | (count + 1 >= 2)
        assert torch.equal(now["next", "done"], done)
        position = torch.where(done, walk_reset(torch.Size([3])), following)
        total = torch.where(done, 0.0, total + reward)
        count = torch.where(done, 0, count + 1)
        fresh = done


def test_a_rewritten_carry_does_not_feed_back() -> None:
    plain = TransformedEnv(Walk(3), RewardSum())
    scaled = TransformedEnv(
        Walk(3), Compose(RewardSum(), RewardScaling(1.0, 0.5, in_keys=["episode_reward"]))
    )
    assert ("_carry", "t0", "episode_reward") in scaled.observation_spec.keys(True, True)
    assert ("_carry", "t0", "episode_reward") in scaled.state_spec.keys(True, True)
    assert not any("_carry" in key for key in plain.observation_spec.keys(True, True))
    check_env_specs(scaled)
    torch.manual_seed(0)
    expected = plain.rollout(30, break_when_any_done=False)
    torch.manual_seed(0)
    found = scaled.rollout(30, break_when_any_done=False)
    for where in ((), ("next",)):
        assert torch.equal(
            found[(*where, "episode_reward")], expected[(*where, "episode_reward")] * 0.5 + 1.0
        )
        assert torch.equal(
            found[(*where, "_carry", "t0", "episode_reward")], expected[(*where, "episode_reward")]
        )


def test_two_private_carries_in_nested_environments() -> None:
    inner = TransformedEnv(Walk(2), Compose(RewardSum(), RewardScaling(0.0, 0.5, ["episode_reward"])))
    outer = TransformedEnv(
        inner,
        Compose(
            RewardSum(out_keys=["total"]),
            RewardScaling(0.0, 4.0, ["total"]),
            StepCounter(),
        ),
        auto_unwrap=False,
    )
    private = sorted(key[1] for key in outer.observation_spec.keys(True, True) if "_carry" in key)
    assert private == ["t0", "t2"]
    data = outer.rollout(20, break_when_any_done=False)
    assert torch.equal(data["next", "total"], data["next", "episode_reward"] * 8.0)


def test_a_rewritten_state_does_not_feed_back() -> None:
    plain = Walk(3)
    env = TransformedEnv(Walk(3), ObservationNorm(10.0, 2.0, ["position"]))
    check_env_specs(env)
    torch.manual_seed(0)
    expected = plain.rollout(30, break_when_any_done=False)
    torch.manual_seed(0)
    found = env.rollout(30, break_when_any_done=False)
    assert torch.equal(found["next", "position"], expected["next", "position"] * 2.0 + 10.0)
    assert torch.equal(found["next", "reward"], expected["next", "reward"])


def test_double_to_float_keeps_the_state_exact() -> None:
    plain = Walk(3, dtype=torch.float64)
    env = TransformedEnv(Walk(3, dtype=torch.float64), DoubleToFloat())
    assert env.transform.in_keys == ["position", "reward"]
    assert env.transform.in_keys_inv == ["action", "position"]
    assert env.action_spec.dtype == torch.float32
    assert isinstance(env.action_spec, Bounded)
    assert env.observation_spec["position"].dtype == torch.float32
    assert env.reward_spec.dtype == torch.float32
    check_env_specs(env)
    torch.manual_seed(0)
    found = env.rollout(30, break_when_any_done=False)
    actions = iter(found["action"].double().unbind(-2))
    expected = plain.rollout(30, lambda td: td.set("action", next(actions)), break_when_any_done=False)
    assert found["next", "position"].dtype == torch.float32
    assert torch.equal(found["next", "position"], expected["next", "position"].float())
    assert torch.equal(found["next", "reward"], expected["next", "reward"].float())


def test_double_to_float_without_an_environment() -> None:
    data = TensorDict({"a": torch.ones(2, dtype=torch.float64), "b": torch.ones(2, dtype=torch.float64)}, [2])
    chosen = DoubleToFloat(in_keys=["a"])(data.clone())
    assert (chosen["a"].dtype, chosen["b"].dtype) == (torch.float32, torch.float64)
    nested = data.clone().set("next", data.clone())
    every = DoubleToFloat()(nested)
    assert {value.dtype for value in every.values(True, True)} == {torch.float32}
    assert DoubleToFloat(in_keys=["a"]).in_keys_inv == []
    with pytest.raises(RuntimeError, match="takes its keys from the environment"):
        DoubleToFloat().inv(data)
    back = DoubleToFloat(in_keys=["a"], in_keys_inv=["a"]).inv(chosen)
    assert back["a"].dtype == torch.float64


def test_flags_reach_nested_groups() -> None:
    env = TransformedEnv(Team(3), Compose(InitTracker(), StepCounter(max_steps=2), RewardSum()))
    check_env_specs(env)
    data = env.rollout(4, lambda td: td.set(("agents", "action"), torch.full((3, 2, 1), 0.25)))
    assert data.batch_size == (3, 2)
    last = data[:, -1]["next"]
    assert last["truncated"].all()
    assert last["done"].all()
    assert last["agents", "truncated"].all()
    assert last["agents", "done"].all()
    assert not last["agents", "terminated"].any()
    assert not data[:, 0]["next", "agents", "done"].any()
    assert torch.equal(last["agents", "episode_reward"], torch.full((3, 2, 1), 1.5))
    assert "step_count" not in data["agents"]


def test_handwritten_flags_raise_done() -> None:
    class Bored(Transform):
        """Truncates when the position is negative."""

        def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
            flag = (next_tensordict["position"] < 0).any(-1, keepdim=True)
            return next_tensordict.set("truncated", flag)

        def transform_done_spec(self, done_spec: Any) -> Any:
            done_spec["truncated"] = done_spec["done"].clone()
            return done_spec

    env = TransformedEnv(Walk(3), Bored())
    data = env.rollout(20, break_when_any_done=False)
    after = data["next"]
    assert after["truncated"].any()
    assert torch.equal(after["done"], after["terminated"] | after["truncated"])


def test_transforms_see_the_action_of_the_policy() -> None:
    seen = []

    class Halve(Transform):
        invertible = True

        def __init__(self) -> None:
            super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])

        def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
            return state / 2

        def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
            seen.append(tensordict["action"])
            return next_tensordict

    env = TransformedEnv(Walk(2), Halve())
    root = env.reset().set("action", torch.ones(2, 3))
    position = root["position"]
    after = env.step(root)
    assert torch.equal(after["action"], torch.ones(2, 3))
    assert torch.equal(seen[0], torch.ones(2, 3))
    assert torch.equal(after["next", "position"], position * 1.25 + 0.5)


def test_bounds_are_mapped() -> None:
    env = TransformedEnv(Walk(2, bounded=True), ObservationNorm(1.0, [1.0, -2.0, 0.0], ["position"]))
    spec = env.observation_spec["position"]
    assert isinstance(spec, Bounded)
    assert spec.space.low[0].tolist() == [-9.0, -19.0, 1.0]
    assert spec.space.high[0].tolist() == [11.0, 21.0, 1.0]
    renamed = TransformedEnv(Walk(2), RewardScaling(0.0, 2.0, ["reward"], ["scaled"]))
    assert set(renamed.full_reward_spec.keys()) == {"reward", "scaled"}
    assert isinstance(renamed.full_reward_spec["scaled"], Unbounded)


def test_specs_of_added_entries() -> None:
    env = TransformedEnv(
        Walk(2), Compose(InitTracker("start"), StepCounter(5, step_count_key="age"), RewardSum())
    )
    spec = env.observation_spec
    assert isinstance(spec["start"], Categorical)
    assert spec["start"].dtype == torch.bool
    assert spec["age"].dtype == torch.int64
    assert spec["age"].space.low.max() == 0
    assert set(env.state_spec.keys()) == {"position", "age", "episode_reward"}
    assert set(env.done_keys) == {"done", "terminated", "truncated"}
    unlimited = TransformedEnv(Walk(2), StepCounter())
    assert set(unlimited.done_keys) == {"done", "terminated"}
    assert unlimited.transform.out_keys == ["step_count"]


def test_truncation_without_done() -> None:
    env = TransformedEnv(Walk(2), StepCounter(max_steps=2, update_done=False))
    data = env.rollout(4, lambda td: td.set("action", torch.zeros(2, 3)))
    assert data["next", "truncated"].squeeze(-1).tolist() == [[False, True, True, True]] * 2
    assert not data["next", "done"].any()
    other = TransformedEnv(Walk(2), StepCounter(max_steps=2, truncated_key="late"))
    after = other.rollout(4, lambda td: td.set("action", torch.zeros(2, 3)))
    assert after.batch_size == (2, 2)
    assert after[:, -1]["next", "late"].all()
    assert after[:, -1]["next", "done"].all()


def test_seeds_and_dones_of_the_base() -> None:
    env = TransformedEnv(Walk(2), RewardSum())
    assert env.set_seed(3) == 3
    assert env.batch_locked
    assert not env.is_closed
