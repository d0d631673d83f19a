"""Trainings from slices of episodes: what is drawn, and that networks with a memory see in them what they saw."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import set_recurrent_mode
from specgen_std.pipelines import dqn_cartpole_gru
from tensordict import TensorDictBase

from tests.pipelines.small import small_config

LENGTH = 5


@pytest.fixture(scope="module")
def parts() -> dqn_cartpole_gru.DQNCartPoleGRU:
    """Parts whose buffer has wrapped: 6 batches of 2 x 16 frames in 128."""
    config = small_config(
        dqn_cartpole_gru, num_steps=16, capacity=128, batch_size=20 * LENGTH, warm_up_frames=128, slice_length=LENGTH
    )  # fmt: skip
    made = dqn_cartpole_gru.DQNCartPoleGRU(config)
    batches = iter(made.collector)
    for _ in range(6):
        made.buffer.extend(next(batches).select(*made.stored))
    return made


def sampled(parts: dqn_cartpole_gru.DQNCartPoleGRU) -> TensorDictBase:
    return parts.buffer.sample().reshape(-1, LENGTH)


def test_each_slice_is_of_one_episode(parts: dqn_cartpole_gru.DQNCartPoleGRU) -> None:
    for _ in range(5):
        sample = sampled(parts)
        assert not sample["is_init"][:, 1:].any()
        moved = sample["next", "observation"][:, :-1] == sample["observation"][:, 1:]
        assert moved.all()


def test_the_network_of_a_slice_goes_on_from_the_state_that_was_stored(
    parts: dqn_cartpole_gru.DQNCartPoleGRU,
) -> None:
    """By one run over each slice, the values are those of single steps from the states of the data."""
    sample = sampled(parts)
    assert (sample["is_init"].squeeze(-1)[:, 0] == 0).any(), "no slice begins within an episode"
    for record in (sample, sample["next"]):
        with torch.no_grad(), set_recurrent_mode(True):
            whole = parts.value_network(record.clone())["action_value"]
        with torch.no_grad():
            single = parts.value_network(record.clone())["action_value"]
        torch.testing.assert_close(whole, single)


def test_gradients_go_back_through_the_steps(parts: dqn_cartpole_gru.DQNCartPoleGRU) -> None:
    sample = sampled(parts)
    first = sample["observation"].requires_grad_()
    with set_recurrent_mode(True):
        last = parts.value_network(sample)["action_value"][:, -1].sum()
    (gradient,) = torch.autograd.grad(last, first)
    assert (gradient[:, 0].abs().sum(-1) > 0).all()


def test_slices_divide_batches() -> None:
    with pytest.raises(ValueError, match="slice_length must divide batch_size, got 3"):
        small_config(dqn_cartpole_gru, slice_length=3)


def test_a_slice_is_there_when_the_first_is_drawn() -> None:
    with pytest.raises(
        ValueError, match="warm_up_frames must be at least num_envs \\* slice_length, got 100"
    ):
        small_config(dqn_cartpole_gru, num_envs=20, slice_length=10, batch_size=100, warm_up_frames=100)
