"""Numbers of losses and targets that change in training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.training import cosine, linear
from torch.nn.utils import parameters_to_vector

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


def test_the_largest_norm_of_gradients_follows_a_schedule(tmp_path: Path) -> None:
    """That of one optimizer shrinks, and that of the other, which has none, stays: so do the steps that both take."""
    changes = (
        "optimizer:\n"
        "      actor: {of: [actor_network], sgd: {lr: 0.1}, max_grad_norm: 'linear(0.1, 0.01, over=32)'}\n"
        "      critic: {of: [critic_network], sgd: {lr: 0.1}, max_grad_norm: 0.1}"
    )
    with trained(PPO, changes, tmp_path) as module:
        config = small_config(module, epochs=1, minibatch_size=8)
        parts = module.Training(config)
        assert parts.actor_max_grad_norm == 0.1
        assert not hasattr(parts, "critic_max_grad_norm")
        parts = module.train(config, folder=tmp_path / "run")
        assert parts.actor_max_grad_norm == pytest.approx(0.01)  # 40 frames in front of the last batch
        networks = (parts.actor_network, parts.critic_network)
        before = [parameters_to_vector(one.parameters()).detach() for one in networks]
        batch = parts.collector.next()
        with torch.no_grad():
            parts.estimator(batch)
        metrics = module.update(parts, batch.select(*parts.stored).reshape(-1))
        assert metrics.actor_grad_norm > 0.1
        assert metrics.critic_grad_norm > 0.1
        after = [parameters_to_vector(one.parameters()).detach() for one in networks]
        steps = [float((new - old).norm()) for new, old in zip(after, before, strict=True)]
        assert steps == pytest.approx([0.001, 0.01], rel=0.01)
