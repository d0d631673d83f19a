"""Bonuses on the reward: what is added, what stays, and what advantages are estimated of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.training import RewardBonus
from specgen_std.pipelines import ppo_rnd_mountain_car
from specgen_std.pipelines.ppo_rnd_mountain_car import PPORNDMountainCar
from tensordict import TensorDict

from tests.pipelines.small import small_config


def batch_of(reward: torch.Tensor) -> TensorDict:
    return TensorDict({"next": TensorDict({"reward": reward.unsqueeze(-1)}, reward.shape)}, reward.shape)


def test_the_reward_of_the_environment_is_kept() -> None:
    reward, bonus = torch.randn(2, 3), torch.rand(2, 3)
    add, batch = RewardBonus(0.5, num_envs=2), batch_of(reward)
    add(batch, bonus)
    torch.testing.assert_close(batch["next", "reward"].squeeze(-1), reward + 0.5 * bonus)
    assert torch.equal(batch["next", "extrinsic"].squeeze(-1), reward)
    add(batch, bonus)  # a second bonus is added to the first
    torch.testing.assert_close(batch["next", "reward"].squeeze(-1), reward + bonus)
    assert torch.equal(batch["next", "extrinsic"].squeeze(-1), reward)


def test_it_is_divided_by_the_deviation_of_its_discounted_sums() -> None:
    """The sums go on from batch to batch, for each environment."""
    bonus = torch.rand(3, 10)
    whole, halves = (RewardBonus(1.0, num_envs=3, gamma=0.9) for _ in range(2))
    whole(batch_of(torch.zeros(3, 10)), bonus)
    sums = [torch.zeros(3)]
    for step in bonus.unbind(1):
        sums.append(sums[-1] * 0.9 + step)
    batches = [batch_of(torch.zeros(3, 5)) for _ in range(2)]
    for part, one in zip(bonus.split(5, 1), batches, strict=True):
        halves(one, part)
    deviation = torch.stack(sums[1:]).std(correction=0)
    torch.testing.assert_close(halves.sums, sums[-1])
    torch.testing.assert_close(
        batches[1]["next", "reward"].squeeze(-1), bonus[:, 5:] / deviation, rtol=1e-4, atol=0
    )
    assert torch.equal(halves.sums, whole.sums)
    again = RewardBonus(1.0, num_envs=3, gamma=0.9)
    again.load_state_dict(halves.state_dict())
    assert torch.equal(again.sums, halves.sums)


@pytest.mark.parametrize(("shape", "bonus"), [((2, 3), (2, 4)), ((3, 3), (3, 3)), ((2,), (2,))])
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...], bonus: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"a bonus has the shape of a batch, \[2, time\]"):
        RewardBonus(1.0, num_envs=2)(batch_of(torch.zeros(shape)), torch.zeros(bonus))


def test_advantages_are_of_both_rewards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TensorDict] = []
    forward = RewardBonus.forward

    def watching(self: RewardBonus, batch: TensorDict, bonus: torch.Tensor) -> None:
        seen.append(batch)
        forward(self, batch, bonus)

    monkeypatch.setattr(RewardBonus, "forward", watching)
    parts = ppo_rnd_mountain_car.train(small_config(ppo_rnd_mountain_car), folder=tmp_path / "run")
    last = seen[-1]
    assert (last["next", "extrinsic"] == -1).all()
    assert (last["next", "reward"] > last["next", "extrinsic"]).all()
    advantages = last["advantage"].clone()
    fresh = PPORNDMountainCar(small_config(ppo_rnd_mountain_car))
    fresh.load_state_dict(parts.state_dict())
    for reward, same in (("reward", True), ("extrinsic", False)):
        batch = last.exclude("advantage", "value_target", "state_value", ("next", "state_value"))
        batch["next", "reward"] = last["next", reward]
        value = fresh.critic_network(batch)["state_value"]
        fresh.agent_estimator(batch)
        ahead = (batch["advantage"] - advantages).abs().mean() / value.abs().mean().clamp_min(1)
        assert bool(ahead < 0.1) is same  # the critic has learned since
    assert parts.bonus_reward.statistics is not None
    assert parts.bonus_reward.statistics.count > 47
    fresh = PPORNDMountainCar(small_config(ppo_rnd_mountain_car))
    for one, other in zip(parts.target_network.parameters(), fresh.target_network.parameters(), strict=True):
        assert torch.equal(one, other), "what is predicted stays as it is"
    assert not torch.equal(parts.predictor_network[0].weight, fresh.predictor_network[0].weight)
