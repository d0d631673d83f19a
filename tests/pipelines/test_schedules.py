"""Numbers of losses and targets that change in training."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.training import cosine, linear

from tests.pipelines.small import small_config
from tests.pipelines.test_ends import DQN, PPO, trained


def test_coefficients_of_a_loss_follow_their_schedules(tmp_path: Path) -> None:
    changes = (
        'loss: {ClipPPOLoss: {clip_epsilon: "linear(0.2, 0.05)", critic_coeff: "cosine(0.5, 0.1, over=40)"}}'
    )
    with trained(PPO, changes, tmp_path) as module:
        config = small_config(module)
        parts = module.train(config, folder=tmp_path / "run")
        begun = config.total_frames - config.num_envs * config.num_steps  # set in front of the last batch
        assert begun > 0
        expected = linear(begun, 0.2, 0.05, config.total_frames)
        assert parts.loss.clip_epsilon.item() == pytest.approx(expected)
        assert parts.loss.critic_coeff.item() == pytest.approx(cosine(begun, 0.5, 0.1, 40))
        slower = module.TrainingConfig(clip_epsilon_end=0.1)
        assert slower.clip_epsilon == 0.2


def test_a_resumed_training_has_the_values_of_its_schedules(tmp_path: Path) -> None:
    changes = 'loss: {ClipPPOLoss: {clip_epsilon: "linear(0.2, 0.05, over=1_000)"}}'
    with trained(PPO, changes, tmp_path) as module:
        config = small_config(module, total_frames=48)
        whole = module.train(config, folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=16), folder=tmp_path / "cut")
        cut = module.train(config, folder=tmp_path / "cut", resume=True)
        assert whole.loss.clip_epsilon == cut.loss.clip_epsilon
        assert whole.loss.clip_epsilon < 0.2


def test_targets_follow_by_a_schedule(tmp_path: Path) -> None:
    with trained(DQN, 'target_updater: {soft: {tau: "linear(0.05, 0.001)"}}', tmp_path) as module:
        config = small_config(module)
        parts = module.train(config, folder=tmp_path / "run")
        assert 0.001 < parts.updater.tau < 0.03
        assert parts.updater.eps == 1 - parts.updater.tau


def test_the_fraction_of_a_soft_update_is_one(tmp_path: Path) -> None:
    with trained(DQN, "seed: 1", tmp_path) as module:
        updater: SoftUpdate = module.Training(small_config(module)).updater
        updater.tau = 0.25
        assert (updater.tau, updater.eps) == (0.25, 0.75)
        for wrong in (1.5, -0.1, float("nan"), True):
            with pytest.raises(ValueError, match=r"tau must be in \[0, 1\], got"):
                updater.tau = wrong
