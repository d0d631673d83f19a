"""Trainings of groups of agents by losses over choices, and over distributions of values: what single agents do already."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from tests.compiled_cases import compiled_case
from tests.pipelines.small import differing, small_config
from tests.support import generate, imported

CASE = Path(__file__).parents[1] / "cases" / "good" / "pipeline_of_agents_with_distributions"


@pytest.fixture
def machines(tmp_path: Path) -> Any:
    """The module of four groups, each with a loss of its own."""
    with imported(compiled_case(CASE).files, "generated", tmp_path):
        yield __import__("generated.main", fromlist=["Machines"])


def test_all_groups_learn(machines: Any, tmp_path: Path) -> None:
    """Of 4 in an episode, and of 0 for the arms; random machines have 1.4, 1, 1.3 and -2.7."""
    config = machines.MachinesConfig(evaluate_every=3_072, evaluate_episodes=50)
    machines.train(config, folder=tmp_path / "run")
    last = read_log(tmp_path / "run" / "log.csv")[-1]
    assert last["dial_evaluation"] > 3.9
    assert last["lever_evaluation"] > 3.9
    assert last["pedal_evaluation"] > 3.7
    assert last["arm_evaluation"] > -0.6


def test_what_each_network_gives(machines: Any) -> None:
    parts = machines.Machines(machines.MachinesConfig(num_envs=5, eps=0.0, eps_end=0.0))
    data = parts.policy(parts.env.reset())
    assert data["dial", "action"].shape == (5, 2, 3)
    assert data["dial", "action_value"].shape == (5, 2, 9)
    log_probs = data["lever", "action_value"]
    assert log_probs.shape == (5, 3, 11, 4)
    torch.testing.assert_close(log_probs.exp().sum(-2), torch.ones(5, 3, 4))
    means = (log_probs.exp() * torch.linspace(0, 8, 11)[:, None]).sum(-2)
    assert torch.equal(data["lever", "action"], means.argmax(-1))
    assert data["pedal", "action_value"].shape == (5, 1, 8, 3)
    assert torch.equal(data["pedal", "action"], data["pedal", "action_value"].mean(-2).argmax(-1))
    assert parts.arm_qvalue_network(data)["arm", "state_action_value"].shape == (5, 2, 8)


def test_a_stopped_training_goes_on_as_if_it_had_not(machines: Any, tmp_path: Path) -> None:
    whole = machines.train(small_config(machines), folder=tmp_path / "whole")
    machines.train(small_config(machines, total_frames=24), folder=tmp_path / "cut")
    resumed = machines.train(small_config(machines), folder=tmp_path / "cut", resume=True)
    assert not differing(whole.state_dict(), resumed.state_dict())


CREW = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/transforms/step_counter]
envs:
  Crew:
    doc: Sailors whose dials have marks that are not allowed, and who are paid together.
    groups: {sailor: {agents: 2}}
    reward: [reward]
    state: {sailor.wanted: "int64[2]"}
    action: {sailor.action: "ACTION"}
    observation: {sailor.observation: "float32[2]", sailor.allowed: "bool[MASK]"}
    masks: {sailor.action: sailor.allowed}
    reset: {sailor.wanted: "randint(0, 2, shape=(sailor, 2))"}
    step:
      next.sailor.wanted: "randint(0, 2, shape=(sailor, 2))"
      reward: "mean(float32(CHOICE == sailor.wanted))"
    observe: {sailor.observation: 2 * float32(sailor.wanted) - 1, sailor.allowed: "SHOWN"}
chains:
  CrewTrain: {env: Crew, transforms: [{StepCounter: {max_steps: 4}}]}
pipelines:
  Training:
    env: CrewTrain
    networks: {value_network: {NETWORK}}
    policy: {explore: {epsilon_greedy: {eps: 0.5}}}
    loss: {sailor: LOSS}
    target_updater: {soft: {tau: 0.05}}
    data: {replay: {num_envs: 8, num_steps: 4, capacity: 1_000, batch_size: 32, warm_up_frames: 64, updates: 1}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 128}
"""

KINDS = {
    "classes": {
        "ACTION": "multi_categorical(2, 3)",
        "CHOICE": "sailor.action",
        "MASK": "5",
        "SHOWN": "concat(full((sailor, 4), true), full((sailor, 1), false), axis=-1)",
    },
    "one-hot rows": {
        "ACTION": "onehot(3)[2]",
        "CHOICE": "argmax(sailor.action, axis=-1)",
        "MASK": "2, 3",
        "SHOWN": "concat(full((sailor, 2, 2), true), full((sailor, 2, 1), false), axis=-1)",
    },
    "one choice": {
        "ACTION": "categorical(3)",
        "CHOICE": "sailor.action[:, None]",
        "MASK": "3",
        "SHOWN": "concat(full((sailor, 2), true), full((sailor, 1), false), axis=-1)",
    },
}
"""Actions whose last class is not allowed."""

LOSSES = {
    "BranchingDQNLoss": "mlp: [16]",
    "DistributionalDQNLoss": "mlp: [16], of: [sailor], support: {atoms: 7, low: 0, high: 2}",
    "QRDQNLoss": "mlp: [16], per: agent, out: {quantiles: 4}",
}


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("BranchingDQNLoss", "classes"),
        ("BranchingDQNLoss", "one-hot rows"),
        ("DistributionalDQNLoss", "one choice"),
        ("QRDQNLoss", "one choice"),
    ],
)
def test_masks_of_agents_and_the_reward_of_their_team(loss: str, kind: str, tmp_path: Path) -> None:
    """Nothing is done, and valued as done next, that is not allowed; what the team gets is each agent's."""
    text = CREW
    for name, value in {**KINDS[kind], "LOSS": loss, "NETWORK": LOSSES[loss]}.items():
        text = text.replace(name, value)
    if "of:" in text:
        text = text.replace("    env: CrewTrain", "    allow: [SG594]\n    env: CrewTrain")
    with imported(generate({"crew.yaml": text}, "crew"), "crew", tmp_path):
        module: Any = importlib.import_module("crew.crew")
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        batch = next(iter(parts.collector))
        action = batch["sailor", "action"]
        last = action[..., -1] if kind == "classes" else action
        last = action[..., 2].bool() if kind == "one-hot rows" else last == 2
        assert not last.any()
        parts.buffer.extend(batch.select(*parts.stored).reshape(-1))
        sample = parts.buffer.sample()
        terms = parts.sailor_loss(sample.clone())
        each = sample.clone()
        each["next", "sailor", "reward"] = each["next", "reward"].unsqueeze(-2).expand(-1, 2, 1)
        parts.sailor_loss.set_keys(reward=("sailor", "reward"))
        torch.testing.assert_close(parts.sailor_loss(each)["loss"], terms["loss"])
