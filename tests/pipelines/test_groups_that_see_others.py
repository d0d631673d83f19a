"""Critics of groups of agents that see other groups, or a state of no group: what they read, and what they learn from."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import write_next_actions

from specgen.settings import Config
from tests.compiled_cases import compiled_case
from tests.pipelines.test_groups_of_values import GOOD, trained
from tests.support import LIBRARY, compile_sources, imported

CONFIG = Config("schemas", "made", "made")


@contextmanager
def made(schema: str, folder: Path) -> Iterator[Any]:
    """The module of a schema."""
    found = compile_sources({"schemas/main.yaml": schema}, CONFIG, library=LIBRARY)
    assert not found.diagnostics
    with imported({path.removeprefix("made/"): text for path, text in found.files.items()}, "made", folder):
        yield importlib.import_module("made.main")


@pytest.fixture
def crossings(tmp_path: Path) -> Any:
    """The module of two groups with deterministic policies, whose critics see both groups."""
    with imported(
        compiled_case(GOOD / "pipeline_of_agents_that_see_each_other").files, "generated", tmp_path
    ):
        yield __import__("generated.main", fromlist=["Crossings"])


def test_critics_read_the_actions_of_both_groups(crossings: Any) -> None:
    parts = crossings.Crossings(crossings.CrossingsConfig())
    data = parts.policy(parts.env.reset())
    for group, agents in (("robot", 2), ("walker", 1)):
        network = getattr(parts, f"{group}_value_network")
        before = network(data.clone())[group, "state_action_value"]
        assert before.shape == (8, agents, 1)
        for other, agent in (("robot", 1), ("walker", 0)):
            changed = data.clone()
            changed[other, "action"][:, agent] += 0.5
            assert not torch.equal(before, network(changed)[group, "state_action_value"])


def test_targets_follow_from_what_the_other_group_would_do_next(crossings: Any) -> None:
    """The target of a robot is its reward and the target value of the next state, where all do what their policies say."""
    parts = crossings.Crossings(crossings.CrossingsConfig(gamma=0.9))
    parts.buffer.extend(next(iter(parts.collector)).select(*parts.stored))
    batch = parts.buffer.sample()
    assert ("next", "walker", "action") not in batch.keys(True)
    following = batch["next"].clone()
    parts.walker_actor_network(following)
    parts.robot_actor_network(following)
    with parts.robot_loss.target_value_network_params.to_module(parts.robot_value_network):
        values = parts.robot_value_network(following)["robot", "state_action_value"]
    going_on = ~batch["next", "robot", "terminated"]
    expected = batch["next", "robot", "reward"] + 0.9 * going_on * values
    write_next_actions(parts.walker_loss, "actor_network", batch)
    assert not batch["next", "walker", "action"].requires_grad
    assert torch.equal(batch["next", "walker", "action"], following["walker", "action"])
    found = parts.robot_loss(batch)["target_value"]
    torch.testing.assert_close(found, expected.squeeze(-1))


def test_groups_that_see_each_other_learn(crossings: Any, tmp_path: Path) -> None:
    """Of -3 to -5 in the ten steps of an episode at first."""
    numbers = {"total_frames": 1_200, "evaluate_every": 1_200, "evaluate_episodes": 50, "seed": 1}
    _, log = trained(crossings, "Crossings", tmp_path / "run", **numbers)
    assert log[-1]["robot_evaluation"] > -2.2
    assert log[-1]["walker_evaluation"] > -1.2


def test_critics_that_see_a_state_learn(tmp_path: Path) -> None:
    """One shared by two agents, each of which it sees beside the state, and one of a group that sees nothing else."""
    with imported(compiled_case(GOOD / "pipeline_of_agents_with_a_state").files, "generated", tmp_path):
        module: Any = __import__("generated.main", fromlist=["Lifting"])
        numbers = {"total_frames": 4_800, "evaluate_every": 4_800, "evaluate_episodes": 50}
        parts, log = trained(module, "Lifting", tmp_path / "run", **numbers)
        data = parts.policy(parts.env.reset())
        values = parts.lifter_critic_network(data.clone())["lifter", "state_value"]
        assert values.shape == (16, 2, 1)
        other = data.clone()
        other["lifter", "observation"][:, 1] += 1
        seen = parts.lifter_critic_network(other)["lifter", "state_value"]
        assert torch.equal(values[:, 0], seen[:, 0])  # each sees itself and the state
        assert not torch.equal(values[:, 1], seen[:, 1])
        other["state"] += 1
        for group in ("lifter", "helper"):
            critic = getattr(parts, f"{group}_critic_network")
            before = critic(data.clone())[group, "state_value"]
            assert not (before == critic(other.clone())[group, "state_value"]).any()
        assert log[-1]["lifter_evaluation"] > -12  # a random policy has about -30


def test_members_of_an_ensemble_see_both_groups(tmp_path: Path) -> None:
    """Those of `TD3Loss`, whose policies are told the bounds of an action of their group."""
    schema = (GOOD / "pipeline_of_agents_that_see_each_other" / "main.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("DDPGLoss", "TD3Loss"), ("value_network", "qvalue_network"), ("losses/ddpg", "losses/td3"),
    ):  # fmt: skip
        schema = schema.replace(old, new)
    with made(schema, tmp_path) as module:
        numbers = {"total_frames": 1_200, "evaluate_every": 1_200, "evaluate_episodes": 50}
        parts, log = trained(module, "Crossings", tmp_path / "run", **numbers)
        assert parts.robot_loss.max_action.shape == (2, 1)
        assert log[-1]["robot_evaluation"] > -2.2


def test_simple_tag_with_critics_of_both_groups(tmp_path: Path) -> None:
    """Three adversaries share a critic of all four particles, and the agent has its own."""
    schema = """\
specgen: 1
import: [specgen_std/chains/simple_tag, specgen_std/losses/mappo]
pipelines:
  MAPPOTag:
    env: SimpleTagTrain
    networks:
      adversary.actor_network: {mlp: [16]}
      adversary.critic_network: {mlp: [16], of: [adversary, agent]}
      agent.actor_network: {mlp: [16]}
      agent.critic_network: {mlp: [16], per: all, of: [adversary, agent]}
    loss: {adversary: {MAPPOLoss: {}}, agent: {MAPPOLoss: {}}}
    value_estimator: {multi_agent_gae: {gamma: 0.95, lmbda: 0.9}}
    data: {on_policy: {num_envs: 8, num_steps: 25, epochs: 2, minibatches: 2}}
    optimizer: {adam: {lr: 7.0e-4}}
    stop: {frames: 400}
"""
    with made(schema, tmp_path) as module:
        numbers = {"evaluate_every": 400, "evaluate_episodes": 2}
        parts, log = trained(module, "MAPPOTag", tmp_path / "run", **numbers)
        assert {"adversary_evaluation", "agent_evaluation"} <= log[-1].keys()
        data = parts.policy(parts.env.reset())
        values = parts.adversary_critic_network(data)["adversary", "state_value"]
        assert values.shape == (8, 3, 1)
        assert torch.equal(values[:, 0], values[:, 2])  # one network, which sees the same for each
