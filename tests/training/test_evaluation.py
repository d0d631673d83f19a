"""`evaluate` gives the mean return of whole first episodes, and leaves the training as it was."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, ExplorationType, GymEnv, SerialEnv, exploration_type
from specgen_runtime.modules import QValueActor
from specgen_runtime.training import evaluate, evaluation
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.chains.pendulum import PendulumTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.envs.simple_tag import SimpleTag
from specgen_std.pipelines.ppo_cartpole import actor_network
from tensordict import TensorDictBase
from torch import Tensor, nn


def push_right(observation: Tensor, *_: Any) -> Tensor:
    return torch.ones(observation.shape[:-1], dtype=torch.int64)


def lean(tensordict: TensorDictBase) -> TensorDictBase:
    """Pushes to where the pole falls: episodes of different lengths."""
    return tensordict.set("action", (tensordict["observation"][..., 2] > 0).long())


def first_episodes(env: EnvBase[Any, Any], policy: Any, seed: int) -> list[float]:
    env.set_seed(seed)
    data = env.rollout(500, policy, break_when_any_done=False)
    rewards, over = data["next", "reward"].squeeze(-1), data["next", "done"].squeeze(-1)
    assert over.any(-1).all()
    return [float(row[: int(end) + 1].sum()) for row, end in zip(rewards, over.int().argmax(-1), strict=True)]


def test_the_first_episode_of_each_row() -> None:
    expected = first_episodes(CartPole(batch_size=[20]), lean, seed=3)
    assert len(set(expected)) > 3
    mean = sum(expected) / 20
    assert evaluate(CartPoleTrain(batch_size=[20]), lean, seed=3) == pytest.approx(mean)
    assert evaluate(CartPole(batch_size=[20]), lean, seed=3) == pytest.approx(mean)  # sums rewards itself
    assert evaluate(CartPole(batch_size=[4, 5]), lean, seed=3) == pytest.approx(mean)
    assert evaluate(CartPoleTrain(batch_size=[20]), lean, seed=4) != pytest.approx(mean)


def test_more_and_fewer_episodes_than_rows() -> None:
    env = CartPoleTrain(batch_size=[4])
    twelve = evaluate(env, lean, seed=0, episodes=12)
    thirds = [evaluate(env, lean, seed=0, episodes=count) * count for count in (4, 8)]
    assert twelve * 12 > thirds[1] > thirds[0]
    assert evaluate(env, lean, seed=0) * 4 == pytest.approx(thirds[0])
    three = first_episodes(CartPole(batch_size=[4]), lean, seed=0)[:3]
    assert evaluate(env, lean, seed=0, episodes=3) == pytest.approx(sum(three) / 3)


def test_single_and_simulated_environments() -> None:
    one = evaluate(CartPoleTrain(batch_size=[]), lean, seed=1, episodes=5)
    assert 9 <= one <= 500
    gym = GymEnv("CartPole-v1", categorical_action_encoding=True)
    assert 9 <= evaluate(gym, lean, seed=1, episodes=5) <= 500
    assert evaluate(gym, lean, seed=1, episodes=5) == evaluate(gym, lean, seed=1, episodes=5)
    both = SerialEnv(2, CartPoleTrain)
    assert 9 <= evaluate(both, lean, seed=1, episodes=5) <= 500
    assert evaluate(CartPoleTrain(batch_size=[3]), push_right, seed=1) < 15


def test_episodes_without_end_are_counted_as_they_are_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def torque(*observed: Tensor) -> Tensor:
        return torch.zeros(*observed[0].shape[:-1], 1)

    monkeypatch.setattr(evaluation, "EPISODE_STEPS", 40)
    with pytest.warns(UserWarning, match=r"5 of 5 episodes did not end in 40 steps.*StepCounter") as told:
        mean = evaluate(Pendulum(batch_size=[3]), torque, seed=1, episodes=5)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            evaluate(Pendulum(batch_size=[3]), torque, seed=1, episodes=5, max_steps=40) == mean
        )  # as meant
        evaluate(CartPoleTrain(batch_size=[3]), push_right, seed=1)  # they end


def test_longest_episode() -> None:
    env, torque = Pendulum(batch_size=[3]), lambda *observed: torch.zeros(*observed[0].shape[:-1], 1)
    hundred = evaluate(env, torque, seed=1, max_steps=100)
    assert evaluate(env, torque, seed=1, max_steps=10) > hundred  # rewards are negative
    whole = evaluate(PendulumTrain(batch_size=[3]), torque, seed=1)  # to its time limit
    assert whole < hundred
    with pytest.raises(ValueError, match="max_steps must be at least 1, found 0"):
        evaluate(env, torque, seed=1, max_steps=0)
    with pytest.raises(ValueError, match="episodes must be at least 1, found 0"):
        evaluate(env, torque, seed=1, episodes=0)


class Policy(nn.Module):
    """Draws from torch's generator, and tells in which mode it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(1, 1).eval()
        self.modes: set[Any] = set()

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.modes.add((self.training, self.dropout.training, exploration_type(), torch.is_grad_enabled()))
        return tensordict.set("action", torch.randint(2, tensordict.batch_size))


def test_the_training_is_left_alone() -> None:
    policy, env = Policy(), CartPoleTrain(batch_size=[3])
    torch.manual_seed(0)
    before = torch.get_rng_state()
    found = evaluate(env, policy, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert policy.modes == {(False, False, ExplorationType.DETERMINISTIC, False)}
    assert policy.training
    assert policy.dropout.training
    assert not policy.frozen.training
    assert exploration_type() is None
    assert torch.is_grad_enabled()
    torch.manual_seed(99)
    assert evaluate(env, policy, seed=5) == found  # what the policy draws follows from the seed as well
    evaluate(env, policy, seed=5, exploration=ExplorationType.RANDOM)
    assert (False, False, ExplorationType.RANDOM, False) in policy.modes


def test_what_a_policy_draws_from_is_left_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    policy, env = actor_network(generator), CartPoleTrain(batch_size=[3])
    before = generator.get_state()
    found = evaluate(env, policy, seed=5, exploration=ExplorationType.RANDOM)
    assert torch.equal(generator.get_state(), before)
    generator.manual_seed(2)
    assert evaluate(env, policy, seed=5, exploration=ExplorationType.RANDOM) == found
    assert evaluate(env, policy, seed=6, exploration=ExplorationType.RANDOM) != found


def test_an_error_in_the_policy_leaves_the_training_alone() -> None:
    policy, env = Policy(), CartPoleTrain()
    policy.modes = None  # type: ignore[assignment]
    before = torch.get_rng_state()
    with pytest.raises(AttributeError):
        evaluate(env, policy, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert policy.training


def test_agreement_with_a_rollout_of_a_network() -> None:
    env = CartPoleTrain(batch_size=[10])
    torch.manual_seed(0)
    actor = QValueActor(nn.Linear(4, 2), in_keys=["observation"], spec=env.action_spec)
    expected = first_episodes(CartPole(batch_size=[10]), actor, seed=2)
    assert evaluate(env, actor, seed=2) == pytest.approx(sum(expected) / 10)


def test_no_returns() -> None:
    with pytest.raises(KeyError, match=r"'next' has neither \('agents', 'episode_reward'\) nor"):
        evaluate(CartPoleTrain(), lean, seed=0, returns=("agents", "episode_reward"))


def test_groups_of_agents_are_named() -> None:
    with pytest.raises(
        KeyError, match=r"returns=\{'adversary': \('adversary', 'episode_reward'\), 'agent': \("
    ):
        evaluate(SimpleTag(batch_size=[2]), SimpleTag(batch_size=[2]).rand_action, seed=0, max_steps=3)
