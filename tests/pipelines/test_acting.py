"""Policies that are meant to explore by nothing, and evaluations in an environment with other parameters."""

from __future__ import annotations

from pathlib import Path

import torch

from specgen import Acting, Explore, GaussianNoise, Pipeline
from tests.pipelines.small import small_config
from tests.pipelines.test_ends import DQN, PPO, trained


def test_a_policy_that_explores_by_nothing_takes_its_best_action(tmp_path: Path) -> None:
    with trained(DQN, "policy: {explore: none}", tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        assert not hasattr(parts, "exploration")
        data = parts.policy(parts.env.reset())
        assert torch.equal(data["action"], data["action_value"].argmax(-1))


def test_none_is_said_in_python_too() -> None:
    assert Pipeline(policy=Acting(explore="none")).policy == Acting(explore="none")
    assert Acting(explore=Explore(gaussian=GaussianNoise(sigma=0.1))).explore != "none"


def test_evaluations_have_an_environment_with_other_parameters(tmp_path: Path) -> None:
    changes = "evaluate: {env: {PendulumTrain: {g: 3.0}}}"
    with trained(PPO, changes, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        assert parts.eval_env.params.g == 3.0
        assert parts.env.params.g == 10.0
