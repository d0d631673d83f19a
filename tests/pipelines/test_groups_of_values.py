"""Trainings of groups of agents by losses over values of actions: who explores, what is learned, and from what."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.training import read_log

from tests.compiled_cases import compiled_case
from tests.pipelines.small import leaves
from tests.support import imported

GOOD = Path(__file__).parents[1] / "cases" / "good"


def trained(module: ModuleType, name: str, folder: Path, **numbers: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The parts after a training with these numbers, and its log."""
    config = getattr(module, f"{name}Config")(**numbers)
    parts = module.train(config, folder=folder)  # type: ignore[attr-defined]
    return parts, read_log(folder / "log.csv")


@pytest.fixture
def crossings(tmp_path: Path) -> Any:
    """The module of two groups with deterministic policies."""
    with imported(compiled_case(GOOD / "pipeline_of_agents_with_values").files, "generated", tmp_path):
        yield __import__("generated.main", fromlist=["Crossings"])


def test_both_groups_learn(crossings: Any, tmp_path: Path) -> None:
    """Of -3 to -5 in the ten steps of an episode at first."""
    numbers = {"total_frames": 1_200, "evaluate_every": 1_200, "evaluate_episodes": 50, "seed": 1}
    parts, log = trained(crossings, "Crossings", tmp_path / "run", **numbers)
    assert log[-1]["robot_evaluation"] > -2.2
    assert log[-1]["walker_evaluation"] > -1.2
    assert parts.robot_loss.value_network_params is not None


def test_each_group_explores_by_itself(crossings: Any) -> None:
    parts = crossings.Crossings(crossings.CrossingsConfig(num_envs=200))
    data = parts.env.reset()
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        sure = parts.policy(data.clone())
    with set_exploration_type(ExplorationType.RANDOM):
        tried = parts.policy(data.clone())
    noises = [tried[group, "action"] - sure[group, "action"] for group in ("robot", "walker")]
    for noise, agents in zip(noises, (2, 1), strict=True):
        assert noise.shape == (200, agents, 1)
        assert 0.2 < noise.std() < 0.35
    assert torch.corrcoef(noises[0][..., 0].T)[0, 1].abs() < 0.3  # agents have noise of their own
    assert not torch.equal(noises[0][:, :1], noises[1])


def test_a_critic_of_all_agents_sees_the_actions_of_all(crossings: Any) -> None:
    parts = crossings.Crossings(crossings.CrossingsConfig())
    data = parts.policy(parts.env.reset())
    before = parts.robot_value_network(data.clone())["robot", "state_action_value"]
    data["robot", "action"][:, 1] += 0.5
    after = parts.robot_value_network(data)["robot", "state_action_value"]
    assert not torch.equal(before[:, 0], after[:, 0])


def test_a_stopped_training_goes_on_as_if_it_had_not(crossings: Any, tmp_path: Path) -> None:
    numbers = {
        "sigma": 0.2,
        "sigma_end": 0.2,
        "evaluate_every": 1_000,
        "checkpoint_every": 64,
        "warm_up_frames": 128,
        "batch_size": 16,
    }
    whole, _ = trained(crossings, "Crossings", tmp_path / "whole", total_frames=320, **numbers)
    trained(crossings, "Crossings", tmp_path / "cut", total_frames=192, **numbers)
    config = crossings.CrossingsConfig(total_frames=320, **numbers)
    resumed = crossings.train(config, folder=tmp_path / "cut", resume=True)
    expected, found = leaves(whole.state_dict()), leaves(resumed.state_dict())
    assert expected.keys() == found.keys()
    different = [
        name
        for name, value in expected.items()
        if isinstance(value, torch.Tensor) and not torch.equal(value, found[name])
    ]
    assert not different


def test_agents_that_draw_learn_from_the_reward_of_their_team(tmp_path: Path) -> None:
    """Frames are drawn by the errors of all agents, and each agent has a log-probability of its own."""
    with imported(compiled_case(GOOD / "pipeline_of_agents_that_draw").files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Pushing"])
        numbers = {"total_frames": 1_200, "evaluate_every": 1_200, "evaluate_episodes": 50}
        parts, log = trained(module, "Pushing", tmp_path / "run", **numbers)
        assert parts.robot_loss.target_entropy == -1  # of the one number that an agent's action is
        batch = parts.buffer.sample()
        terms = parts.robot_loss(batch)
        assert batch["robot", "td_error"].shape == (64, 2, 1)
        assert terms["loss_actor"].shape == ()
        assert log[-1]["robot_evaluation"] > -6  # a random policy has about -30


def test_agents_of_finitely_many_actions_try_others(tmp_path: Path) -> None:
    with imported(compiled_case(GOOD / "pipeline_of_agents_that_try").files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Hunting"])
        parts, log = trained(
            module, "Hunting", tmp_path / "run", total_frames=800, evaluate_every=800, evaluate_episodes=2
        )
        assert {"adversary_loss", "agent_loss"} <= log[-1].keys()
        assert parts.adversary_exploration.eps == parts.agent_exploration.eps
        parts.adversary_exploration.eps, parts.agent_exploration.eps = 1.0, 0.0
        data = parts.env.reset()
        tried = parts.policy(data.clone())
        best = tried["adversary", "action_value"].argmax(-1)
        share = (tried["adversary", "action"] != best).float().mean(0)
        assert share.shape == (3,)
        assert (share > 0).all()  # four fifths of 8
        assert torch.equal(tried["agent", "action"], tried["agent", "action_value"].argmax(-1))
