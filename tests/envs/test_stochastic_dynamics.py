"""Draws in `step`, discrete and whole-number state, resets of single rows: in every batch, chained or not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.testing import assert_identical, check_env

from tests.envs.randomised import BATCHES, envs

__all__ = ["envs"]

each_env = pytest.mark.parametrize("name", ["Drunk", "DrunkTrain"])
each_batch = pytest.mark.parametrize("batch", BATCHES, ids=str)


@each_batch
@each_env
def test_the_contract_holds(envs: Any, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(envs, name), batch_size=batch), steps=40)


@each_batch
@each_env
@pytest.mark.parametrize("stops", [True, False], ids=["stopping", "going_on"])
def test_a_rollout_is_stepping_bit_by_bit(envs: Any, name: str, batch: tuple[int, ...], stops: bool) -> None:
    lifted, stepped = (getattr(envs, name)(batch_size=batch) for _ in range(2))
    lifted.set_seed(3)
    stepped.set_seed(3)
    torch.manual_seed(5)
    rollout = lifted.rollout(30, break_when_any_done=stops)
    torch.manual_seed(5)
    root = stepped.reset()
    steps = []
    for _ in range(rollout.shape[-1]):
        step, root = stepped.step_and_maybe_reset(stepped.rand_action(root))
        steps.append(step)
    assert_identical(rollout, torch.stack(steps, len(batch)), "stepping")
    if not stops:
        assert rollout["next", "terminated"].any() or rollout["next", "truncated"].any()


@each_env
def test_a_policy_sees_the_same_episodes(envs: Any, name: str) -> None:
    def policy(tensordict: Any) -> Any:
        return tensordict.set("action", (tensordict["place"] + tensordict["steps"]) % 3)

    one, other = (getattr(envs, name)(batch_size=(4,)) for _ in range(2))
    one.set_seed(1)
    other.set_seed(1)
    lifted = one.rollout(30, policy, break_when_any_done=False)
    stepped = other.rollout(30, policy, lambda *_: None, break_when_any_done=False)
    assert_identical(lifted, stepped, "a rollout with a callback")


def test_the_walk_is_of_its_distribution(envs: Any) -> None:
    env = envs.Drunk(batch_size=(50_000,), sobriety=0.7)
    env.set_seed(0)
    root = env.reset().set("action", torch.full((50_000,), 2))
    moved = (env.step(root)["next", "place"] - root["place"]) % 5
    shares = torch.bincount(moved, minlength=5).float() / 50_000
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.8, 0.0, 0.0, 0.1]), atol=0.01, rtol=0)
    flips = (root["next", "lamps"] != root["lamps"]).float().mean(0)
    torch.testing.assert_close(flips, torch.full((5,), 0.1), atol=0.01, rtol=0)
    assert abs(root["next", "terminated"].float().mean() - 0.05) < 0.01


def test_rows_draw_independently(envs: Any) -> None:
    env = envs.DrunkTrain(batch_size=(64,))
    noise = env.reset()["noise"]
    assert noise.unique().numel() == 64
    root = env.rand_action(env.reset())
    assert (env.step(root)["next", "noise"] - 0.9 * root["noise"]).unique().numel() == 64


def test_writing_into_one_row_leaves_the_others(envs: Any) -> None:
    """Also where all rows begin with the same numbers."""
    root = envs.Cart(batch_size=(3,)).reset()
    root["v"][0] = 1.0
    assert root["v"].tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_the_pure_function_takes_its_draws(envs: Any) -> None:
    """With the draws as arguments nothing is random."""
    place, sober = torch.tensor([0, 4, 2]), torch.tensor([1.0, 1.0, 0.5])
    zeros, ones = torch.zeros(3), torch.ones(3)
    next_ = envs.drunk_advance(
        place=place,
        steps=torch.tensor([0, 3, 14], dtype=torch.int32),
        lamps=torch.zeros(3, 5, dtype=torch.bool),
        noise=zeros,
        sobriety=sober,
        action=torch.tensor([2, 2, 2]),
        draw_astray=torch.tensor([0.9, 0.9, 0.9]),
        draw_move=torch.tensor([-1, -1, -1]),
        draw_next_lamps=torch.tensor([[0.5, 0.05, 0.5, 0.5, 0.5]] * 3),
        draw_next_noise=zeros,
        draw_reward=zeros,
        draw_terminated=ones,
    )
    assert next_.place.tolist() == [1, 0, 1]
    assert next_.reward.flatten().tolist() == [1.0, 0.0, 1.0]
    assert next_.truncated.flatten().tolist() == [False, False, True]
