"""`MultiStep`: the returns of several steps of one batch, as a collector's `postproc`."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.collectors import Collector, split_trajectories
from specgen_runtime.data import MultiStep
from specgen_std.envs import CartPole
from tensordict import TensorDict

from tests.data.transitions import transitions


@pytest.mark.parametrize("n", [1, 2, 5])
def test_windows_end_with_the_episode_and_the_batch(n: int) -> None:
    """Against a sum over each window by itself."""
    data = transitions(20, 0, (3,)).transpose(0, 1)
    before = data.clone()
    out = MultiStep(gamma=0.9, n_steps=n)(data)
    assert (data == before).all()
    assert set(before.keys(True, True)) <= set(out.keys(True, True))
    for row in range(3):
        for start in range(20):
            taken = min(n, 7 - start % 7, 20 - start)
            rewards = data["next", "reward"][row, start : start + taken, 0]
            total = sum(0.9**k * reward for k, reward in enumerate(rewards.tolist()))
            assert out["next", "reward"][row, start].item() == pytest.approx(total, rel=1e-5)
            assert out["steps_to_next_obs"][row, start] == taken
            assert out["gamma"][row, start].item() == pytest.approx(0.9**taken)
            for key in ("observation", "done", "terminated"):
                assert torch.equal(out["next", key][row, start], data["next", key][row, start + taken - 1]), (
                    key
                )
    assert torch.equal(out["next", "original_reward"], data["next", "reward"])
    assert torch.equal(out["nonterminal"], ~data["next", "done"].squeeze(-1))
    assert torch.equal(out["observation"], data["observation"])


FLAGS = (("next", "done"), ("next", "terminated"), ("next", "truncated"), "nonterminal")


@pytest.mark.peers
@pytest.mark.parametrize("n", [1, 3])
def test_equals_torchrl(n: int) -> None:
    """But for the done flags and `nonterminal`: there, the last moment of a batch counts as the end of an episode."""
    theirs = pytest.importorskip("torchrl.data").MultiStep(gamma=0.9, n_steps=n)
    data = Collector(CartPole(batch_size=[2]), frames_per_batch=80).next()
    expected, found = theirs(data.clone()), MultiStep(gamma=0.9, n_steps=n)(data)
    assert set(found.keys(True, True)) == set(expected.keys(True, True))
    for key in expected.keys(True, True):
        if key not in FLAGS:
            assert torch.allclose(found[key].float(), expected[key].float(), atol=1e-5), key
    assert not expected["nonterminal"][:, -1].any()


@pytest.mark.peers
def test_padding_is_no_next_observation_and_is_for_torchrl() -> None:
    """Trajectories that the end of the batch cuts off are padded behind moments that aren't done."""
    theirs = pytest.importorskip("torchrl.data").MultiStep(gamma=0.9, n_steps=3)
    data = split_trajectories(Collector(CartPole(batch_size=[2]), frames_per_batch=80).next())
    mask = data["collector", "mask"]
    expected, found = theirs(data.clone()), MultiStep(gamma=0.9, n_steps=3)(data)
    cut = mask & (found["steps_to_next_obs"] < expected["steps_to_next_obs"])
    assert cut.any()
    assert (expected["next", "observation"][cut] == 0).all()
    assert (found["next", "observation"][mask] != 0).any(-1).all()
    for key in expected.keys(True, True):
        if key not in FLAGS:
            assert torch.allclose(
                found[key][mask & ~cut].float(), expected[key][mask & ~cut].float(), atol=1e-5
            ), key


def test_a_collector_gives_what_it_makes() -> None:
    collector = Collector(CartPole(), frames_per_batch=60, postproc=MultiStep(gamma=0.99, n_steps=3))
    batch = collector.next()
    ends = batch["collector", "traj_ids"].diff(append=torch.tensor([-1])) != 0
    assert (batch["steps_to_next_obs"][ends] == 1).all()
    assert (batch["steps_to_next_obs"][:-2][~(ends[:-2] | ends[1:-1])] == 3).all()


def test_several_rewards_and_other_keys() -> None:
    data = TensorDict(
        {
            "next": {
                "gain": torch.tensor([1.0, 2.0, 4.0, 8.0]),
                "cost": torch.tensor([1.0, 1.0, 1.0, 1.0]).reshape(4, 1),
                "over": torch.tensor([False, True, False, False]),
            },
            "valid": torch.tensor([True, True, True, False]),
        },
        [4],
    )
    out = MultiStep(0.5, 3, reward_keys=["gain", "cost"], done_key="over", mask_key="valid")(data)
    assert out["next", "gain"].tolist() == [2.0, 2.0, 4.0, 8.0]
    assert out["next", "cost"].squeeze(-1).tolist() == [1.5, 1.0, 1.0, 1.0]
    assert torch.equal(out["next", "original_gain"], data["next", "gain"])
    assert out["steps_to_next_obs"].tolist() == [2, 1, 1, 1]


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="n_steps is a positive integer, got 0"):
        MultiStep(0.9, 0)
    for gamma in (0.0, 1.1):
        with pytest.raises(ValueError, match=r"gamma lies in \(0, 1\], got"):
            MultiStep(gamma, 2)
    with pytest.raises(ValueError, match="got no dimension"):
        MultiStep(0.9, 2)(TensorDict())
    with pytest.raises(KeyError, match=r"MultiStep reads \('next', 'done'\), which is not in the data"):
        MultiStep(0.9, 2)(TensorDict({"next": {"reward": torch.zeros(3, 1)}}, [3]))
    with pytest.raises(KeyError, match="MultiStep reads 'next', which is not in the data"):
        MultiStep(0.9, 2)(TensorDict({"reward": torch.zeros(3, 1)}, [3]))


def test_data_that_name_no_device_may_be_on_another() -> None:
    following = {"reward": torch.zeros(3, 1, device="meta"), "done": torch.zeros(3, 1, device="meta").bool()}
    for more in ({}, {"collector": {"mask": torch.ones(3, device="meta").bool()}}):
        made = MultiStep(0.9, 2)(TensorDict({"next": following, **more}, [3]))
        assert made["steps_to_next_obs"].is_meta
