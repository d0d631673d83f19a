"""Targets that follow by network, or by loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from specgen_runtime.objectives import HardUpdate, SoftUpdate

from tests.pipelines.small import differing, small_config
from tests.pipelines.test_ends import trained

TD3 = ("TD3Pendulum", "pipelines/td3_pendulum, chains/pendulum, losses/td3")
GROUPS = """
  Groups:
    abstract: true
    env: SimpleTagTrain
    networks: {adversary.value_network: {mlp: [32]}, agent.value_network: {mlp: [32]}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    loss: {adversary: {DQNLoss: {}}, agent: {DQNLoss: {}}}
    value_estimator: {td0: {gamma: 0.95}}
    data: {replay: {num_envs: 8, capacity: 10_000, batch_size: 64, warm_up_frames: 400, updates: 1}}
    optimizer: {adam: {lr: 1.0e-3}}
    evaluate: {of: adversary}
    stop: {frames: 4_000}
"""


def weights(loss: Any, name: str) -> list[torch.Tensor]:
    """The target's weights, as they are."""
    found = getattr(loss, f"target_{name}_params").data.values(True, True)
    return [one.clone() for one in found]


def test_each_network_has_its_own_pace(tmp_path: Path) -> None:
    """By a fraction of its own, and at updates of its own: `tau` really is another one."""
    changes = (
        "target_updater:\n"
        "      actor_network: {soft: {tau: 0.02}, every: delay}\n"
        "      qvalue_network: {hard: {interval: 20}}"
    )
    with trained(TD3, changes, tmp_path) as module:
        config = small_config(module, delay=3, actor_network_tau=0.5, qvalue_network_interval=2)
        parts = module.Training(config)
        assert isinstance(parts.actor_network_updater, SoftUpdate)
        assert isinstance(parts.qvalue_network_updater, HardUpdate)
        batch = parts.collector.next().select(*parts.stored).reshape(-1)
        for updates in range(4):
            before = {name: weights(parts.loss, name) for name in ("actor_network", "qvalue_network")}
            module.update(parts, batch, updates=updates)
            after = {name: weights(parts.loss, name) for name in ("actor_network", "qvalue_network")}
            sources = [one.detach() for one in parts.loss.actor_network_params.values(True, True)]
            for old, new, source in zip(
                before["actor_network"], after["actor_network"], sources, strict=True
            ):
                expected = (old + source) / 2 if updates % 3 == 0 else old
                torch.testing.assert_close(new, expected)
            copied = zip(
                after["qvalue_network"], parts.loss.qvalue_network_params.values(True, True), strict=True
            )
            assert all(torch.equal(a, b) for a, b in copied) is (updates % 2 == 1)


def test_a_resumed_training_has_both_updaters(tmp_path: Path) -> None:
    changes = "target_updater: {actor_network: {hard: {interval: 50}}, qvalue_network: {soft: {tau: 'linear(0.1, 0.01, over=1_000)'}}}"
    with trained(TD3, changes, tmp_path) as module:
        config = small_config(module, total_frames=40, actor_network_interval=5)
        whole = module.train(config, folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=24, actor_network_interval=5), folder=tmp_path / "cut")
        cut = module.train(config, folder=tmp_path / "cut", resume=True)
        assert not differing(whole.state_dict(), cut.state_dict())
        assert 0 < whole.actor_network_updater.counter < 5
        assert whole.qvalue_network_updater.tau == cut.qvalue_network_updater.tau < 0.1


def test_each_group_has_its_own_pace(tmp_path: Path) -> None:
    """By the name of its loss; a target of a group is moved by no other updater."""
    parent = ("Groups", "chains/simple_tag, losses/dqn")
    changes = (
        "target_updater: {adversary: {soft: {tau: 0.1}}, agent.value_network: {soft: {tau: 0.01}}}" + GROUPS
    )
    with trained(parent, changes, tmp_path) as module:
        parts = module.Training(small_config(module))
        assert (parts.adversary_updater.tau, parts.agent_value_network_updater.tau) == (0.1, 0.01)
        assert parts.adversary_updater.loss_module is parts.adversary_loss
        assert parts.agent_value_network_updater.networks == ("value_network",)
        module.train(small_config(module), folder=tmp_path / "run")
