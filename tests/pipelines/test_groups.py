"""Trainings of groups of agents: each loss trains its own networks, and each group has a return of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType
from specgen_runtime.training import evaluate, minibatches, read_log
from specgen_std.chains.simple_tag import SimpleTagTrain
from specgen_std.pipelines import mappo_tag
from specgen_std.pipelines.mappo_tag import MAPPOTag, MAPPOTagConfig
from tensordict import TensorDictBase

from tests.compiled_cases import compiled_case
from tests.pipelines.small import small_config
from tests.support import imported

GOOD = Path(__file__).parents[1] / "cases" / "good"
GROUPS = {"adversary": ("adversary", "episode_reward"), "agent": ("agent", "episode_reward")}


def estimated_batch(parts: MAPPOTag) -> TensorDictBase:
    batch = next(iter(parts.collector))
    with torch.no_grad():
        parts.adversary_estimator(batch)
        parts.agent_estimator(batch)
    return batch


def test_what_a_group_is_given_and_writes() -> None:
    batch = estimated_batch(MAPPOTag(small_config(mappo_tag)))
    for group, agents in (("adversary", 3), ("agent", 1)):
        assert batch[group, "action"].shape == (2, 4, agents)
        assert batch[group, "action_log_prob"].shape == (2, 4, agents)
        assert batch[group, "advantage"].shape == (2, 4, agents, 1)
        assert batch[group, "value_target"].isfinite().all()
    assert "advantage" not in batch


def test_advantages_are_those_of_each_agent_by_itself() -> None:
    """One step before the end of the data only the difference of the values is left, with the reward."""
    parts = MAPPOTag(small_config(mappo_tag))
    batch = estimated_batch(parts)
    last = batch[:, -1]
    with torch.no_grad():
        now, after = (
            parts.adversary_critic_network(last.clone() if root is None else last[root].clone())
            for root in (None, "next")
        )
    assert not last["next", "adversary", "terminated"].any()
    delta = last["next", "adversary", "reward"] + parts.config.gamma * after["adversary", "state_value"]
    expected = delta - now["adversary", "state_value"]
    torch.testing.assert_close(last["adversary", "advantage"], expected)
    assert not torch.equal(expected[:, 0], expected[:, 1])  # the critic values each agent


def test_a_loss_trains_the_networks_of_its_group_only() -> None:
    parts = MAPPOTag(small_config(mappo_tag))
    batch = estimated_batch(parts)
    (batch,) = minibatches(batch, 8, generator=parts.shuffling)
    losses = parts.adversary_loss(batch)
    torch.autograd.backward(losses["loss_objective"] + losses["loss_critic"])
    moved = {name for name, _ in parts.adversary_loss.named_parameters()}
    assert moved
    assert all(one.grad is not None for one in parts.adversary_loss.parameters())
    assert all(one.grad is None for one in parts.agent_loss.parameters())


def test_a_critic_sees_all_agents_and_a_policy_itself() -> None:
    parts = MAPPOTag(small_config(mappo_tag))
    root = parts.env.reset()
    other = root.clone()
    other["adversary", "observation"][:, 2] += 1
    with torch.no_grad():
        values = [parts.adversary_critic_network(one)["adversary", "state_value"] for one in (root, other)]
        logits = [
            parts.adversary_actor_network(one)["adversary", "logits"] for one in (root.clone(), other.clone())
        ]
    assert not torch.equal(values[0][:, 0], values[1][:, 0])
    assert torch.equal(logits[0][:, :2], logits[1][:, :2])
    assert not torch.equal(logits[0][:, 2], logits[1][:, 2])


def test_each_group_has_a_return() -> None:
    parts = MAPPOTag(small_config(mappo_tag))
    env = SimpleTagTrain(batch_size=[6])
    scores = evaluate(env, parts.policy, seed=3, returns=GROUPS)
    assert scores == {name: evaluate(env, parts.policy, seed=3, returns=key) for name, key in GROUPS.items()}
    assert scores["adversary"] >= 0 >= scores["agent"]


def test_the_log_tells_the_returns_of_both_groups(tmp_path: Path) -> None:
    config = small_config(mappo_tag, num_steps=25, total_frames=100, evaluate_every=50, minibatches=5)
    mappo_tag.train(config, folder=tmp_path)
    last = read_log(tmp_path / "log.csv")[-1]
    assert {"adversary_return", "agent_return", "adversary_evaluation", "agent_evaluation"} <= last.keys()
    assert (tmp_path / "curve.png").is_file()


def test_a_run_shorter_than_one_interval_is_evaluated_at_its_end(tmp_path: Path) -> None:
    config = small_config(mappo_tag, total_frames=8, evaluate_every=100)
    mappo_tag.train(config, folder=tmp_path)
    (row,) = read_log(tmp_path / "log.csv")
    assert row["frames"] >= 8
    assert any("evaluation" in name for name in row)


@pytest.mark.parametrize("case", ["pipeline_of_a_team", "pipeline_of_a_rewarded_team"])
def test_a_team_of_continuous_agents_trains_and_resumes(case: str, tmp_path: Path) -> None:
    """Parameters of its own for each agent, and no `RewardSum`: rewards, of each or of the team, are summed by the run."""
    with imported(compiled_case(GOOD / case).files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Pushing"])
        config = module.PushingConfig(total_frames=200, evaluate_every=100, evaluate_episodes=3)
        parts = module.train(config, folder=tmp_path / "run")
        assert parts.actor_network(parts.env.reset())["robot", "action"].shape == (4, 2, 1)
        assert "robot_evaluation" in read_log(tmp_path / "run" / "log.csv")[-1]
        longer = module.PushingConfig(total_frames=300, evaluate_every=100, evaluate_episodes=3)
        module.train(longer, folder=tmp_path / "run", resume=True)
        assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == 300


def test_networks_of_a_group_stand_on_a_trunk(tmp_path: Path) -> None:
    """Both terms move it, and it sees each agent by itself."""
    with imported(compiled_case(GOOD / "pipeline_of_agents_with_a_trunk").files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Pushing"])
        config = module.PushingConfig(total_frames=320, evaluate_every=320, evaluate_episodes=3)
        first = [one.detach().clone() for one in module.Pushing(config).eyes.parameters()]
        parts = module.train(config, folder=tmp_path / "run")
        moved = [not torch.equal(one, now) for one, now in zip(first, parts.eyes.parameters(), strict=True)]
        assert all(moved)
        data = parts.eyes(parts.env.reset())
        assert data["eyes_features"].shape == (8, 2, 32)
        other = data.clone()
        other["robot", "observation"][:, 1] += 1
        assert torch.equal(parts.eyes(other)["eyes_features"][:, 0], data["eyes_features"][:, 0])


def test_each_agent_of_a_group_has_a_memory_of_its_own(tmp_path: Path) -> None:
    """Its state is carried from batch to batch, and the loss goes through sequences from the states that were stored."""
    with imported(compiled_case(GOOD / "pipeline_of_agents_with_a_memory").files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Pushing"])
        parts = module.Pushing(module.PushingConfig(num_steps=6))
        batches = iter(parts.collector)
        first, second = next(batches), next(batches)
        assert first["next", "memory_h"].shape == (8, 6, 2, 1, 16)
        goes_on = ~first["next", "done"][:, -1, 0]
        assert goes_on.any()
        torch.testing.assert_close(second["memory_h"][goes_on, 0], first["next", "memory_h"][goes_on, -1])
        assert not torch.equal(first["next", "memory_h"][:, -1, 0], first["next", "memory_h"][:, -1, 1])
        with torch.no_grad():
            parts.robot_estimator(second)
            terms = parts.robot_loss(second)
        assert terms["kl_approx"].abs() < 1e-5  # the log-probabilities are those that were stored
        config = module.PushingConfig(total_frames=480, evaluate_every=480, evaluate_episodes=3)
        trained = module.train(config, folder=tmp_path / "run")
        before = module.Pushing(config).memory.state_dict()
        assert any(not torch.equal(value, before[key]) for key, value in trained.memory.state_dict().items())


@pytest.mark.slow
def test_adversaries_learn_to_hunt(tmp_path: Path) -> None:
    """The policy that is drawn from, in a thousand episodes before and after few but large steps."""
    config = MAPPOTagConfig(
        seed=2,
        total_frames=32_000,
        epochs=4,
        minibatches=2,
        adversary_lr=5e-3,
        evaluate_every=32_000,
        evaluate_episodes=2,
    )
    env = SimpleTagTrain(batch_size=[1_000])
    before, after = (
        evaluate(env, parts.policy, seed=1, max_steps=25, returns=GROUPS, exploration=ExplorationType.RANDOM)[
            "adversary"
        ]
        for parts in (MAPPOTag(config), mappo_tag.train(config, folder=tmp_path))
    )
    assert after > 1.7 * before, (before, after)  # 2.6 times; 2.0 and 2.2 with seeds 0 and 1
