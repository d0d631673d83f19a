"""Rewards, done flags and what is made of them have a trailing 1 when stored, and none in expressions."""

from __future__ import annotations

import re

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.chains import PendulumTrain
from specgen_std.envs import Pendulum
from specgen_std.transforms import (
    CatFrames,
    CatTensors,
    Crop,
    GrayScale,
    LineariseRewards,
    PermuteTransform,
    RewardSum,
    StepCounter,
    SuccessReward,
    TimeMaxPool,
    UnsqueezeTransform,
)
from tensordict import TensorDict

from tests.support import compile_texts

BATCHES = [(), (3,), (4, 3)]


@pytest.mark.parametrize("batch", BATCHES)
def test_the_trailing_1_comes_back(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(
        Pendulum(batch_size=batch),
        Compose(
            StepCounter(),
            TimeMaxPool(["step_count"], ["latest"], T=2),
            UnsqueezeTransform(-1, ["step_count"], ["vector"]),
            CatFrames(3, -1, ["vector"]),
            CatTensors(["observation", "step_count", "th"], del_keys=False),
        ),
    )
    check_env_specs(env)
    data = env.rollout(5)["next"]
    shape = (*batch, 5)
    assert data["latest"].shape == (*shape, 1)
    assert torch.equal(data["latest"], data["step_count"])
    assert data["vector"].shape == (*shape, 3, 1)
    assert data["vector"][..., 4, :, 0].flatten()[:3].tolist() == [3, 4, 5]
    assert data["observation_vector"].shape == (*shape, 5)
    assert torch.equal(data["observation_vector"][..., 3:4], data["step_count"].float())


@pytest.mark.parametrize("batch", BATCHES)
def test_a_fused_chain_says_which_of_its_observations_have_one(batch: tuple[int, ...]) -> None:
    fused = PendulumTrain(batch_size=batch)
    dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(StepCounter(), RewardSum()))
    behind = Compose(
        TimeMaxPool(["step_count"], ["latest"], T=2),
        UnsqueezeTransform(-1, ["episode_reward"], ["vector"]),
    )
    envs = [TransformedEnv(env, behind.clone()) for env in (fused, dynamic)]
    for env in envs:
        check_env_specs(env)
    first, second = (env.full_observation_spec for env in envs)
    assert (first["latest"], first["vector"]) == (second["latest"], second["vector"])
    assert envs[0].rollout(5)["next", "latest"].flatten()[-1] == 5


@pytest.mark.parametrize("batch", BATCHES)
def test_rewards_made_of_observations_have_one(batch: tuple[int, ...]) -> None:
    chain = Compose(
        LineariseRewards(["observation"], ["cost"], weights=[1.0, -1.0, 2.0]), RewardSum(["cost"], ["total"])
    )
    env = TransformedEnv(Pendulum(batch_size=batch), chain)
    check_env_specs(env)
    data = env.rollout(3)["next"]
    assert data["cost"].shape == data["total"].shape == (*batch, 3, 1)
    expected = (data["observation"] * torch.tensor([1.0, -1.0, 2.0])).sum(-1, keepdim=True)
    assert torch.equal(data["cost"], expected)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_a_reward_of_a_flag_without_one_has_one(shape: tuple[int, ...]) -> None:
    data = TensorDict({"success": torch.tensor([True, False]).reshape(shape)}, [2])
    assert SuccessReward()(data)["reward"].tolist() == [[1.0], [0.0]]


def test_a_flag_of_an_environment_by_hand_may_have_one() -> None:
    class Success(Transform):
        def _call(self, next_tensordict):
            return next_tensordict.set("success", next_tensordict["th"].unsqueeze(-1) > 0)

        def _reset(self, tensordict, tensordict_reset):
            return self._call(tensordict_reset)

        def transform_observation_spec(self, observation_spec):
            from specgen_runtime.specs import Categorical

            shape = (*observation_spec.shape, 1)
            return observation_spec.set("success", Categorical(2, shape=shape, dtype=torch.bool))

    env = TransformedEnv(Pendulum(batch_size=(3,)), Compose(Success(), SuccessReward(scale=-2.0)))
    check_env_specs(env)
    data = env.rollout(4)["next"]
    assert torch.equal(data["reward"], torch.where(data["success"], -2.0, 0.0))
    assert env.reward_spec.space.low.unique().tolist() == [-2.0]
    assert env.reward_spec.space.high.unique().tolist() == [0.0]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    ("transform", "says"),
    [
        (CatFrames(2, -1, ["step_count"]), "CatFrames can't be applied to 'step_count' of the shape"),
        (PermuteTransform([-1, -2], ["observation"]), "can't be applied to 'observation' of the shape"),
        (GrayScale(["observation"]), "GrayScale needs [..., 3, H, W], but 'observation' has the shape [3]"),
        (SuccessReward("observation"), "SuccessReward needs bool, but 'observation' is float32"),
        (LineariseRewards(["th"]), "LineariseRewards needs [..., n], but 'th' has the shape []"),
    ],
)
def test_what_does_not_fit_is_said(transform: Transform, says: str, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Pendulum(batch_size=batch), Compose(StepCounter(), transform.clone()))
    with pytest.raises((ValueError, TypeError), match=re.escape(says)):
        _ = env.observation_spec


def test_a_crop_that_is_too_large_is_said() -> None:
    data = TensorDict({"pixels": torch.zeros(2, 3, 4, 5)}, [2])
    with pytest.raises(
        ValueError, match=re.escape("Crop can't be applied to 'pixels' of the shape [2, 3, 4, 5]")
    ):
        Crop(9, 2)(data)


@pytest.mark.parametrize("key", ["truncated", "late"])
def test_a_replayed_end_raises_done(key: str) -> None:
    data = Pendulum(batch_size=(2,)).rollout(6)
    ended = StepCounter(max_steps=4, truncated_key=key)(data.clone())["next"]
    assert torch.equal(ended["done"], ended["step_count"] >= 4)
    assert torch.equal(ended["done"], ended[key])
    kept = StepCounter(max_steps=4, truncated_key=key, update_done=False)(data.clone())["next"]
    assert not kept["done"].any()


def test_indices_of_named_sizes_are_proved() -> None:
    schema = """\
specgen: 1
transforms:
  Middle:
    in: {q: {each: [q], type: "float32[n]"}}
    out: {y: {each: q, name: best}}
    map: {y: "q[size(q) // 2] + q[n // 3]"}
  Last:
    in: {q: {each: [q], type: "float32[n, m]"}}
    out: {y: {each: q, name: best}}
    map: {y: "reshape(q, (n * m,))[n * m - 1]"}
"""
    files, said, _ = compile_texts({"own.yaml": schema}, "own_package")
    assert files, said
    _, said, codes = compile_texts({"own.yaml": schema.replace("n // 3", "n // 1")}, "own_package")
    assert codes == {"SG808"}, said
