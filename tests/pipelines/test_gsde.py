"""Pipelines that explore by noise which depends on the state: what is stored, what is learned, and a resume."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.training import read_log

from tests.pipelines.small import differing, small_config
from tests.pipelines.test_simulators import stopped_after
from tests.support import generate, imported

HEAD = "specgen: 1\ndoc: A training.\nimport: [{imports}]\npipelines:\n"
PPO = "specgen_std/pipelines/ppo_pendulum, specgen_std/chains/pendulum, specgen_std/losses/ppo"
SAC = "specgen_std/pipelines/sac_mountain_car, specgen_std/chains/pendulum, specgen_std/losses/sac"
SCHEMAS = {
    "off_policy": HEAD.format(imports=SAC)
    + "  OffPolicy: {doc: A training., extends: SACMountainCar, env: PendulumTrain,"
    " policy: {explore: {gsde: {every: 8}}}}\n",
    "on_policy": HEAD.format(imports=PPO)
    + "  OnPolicy: {doc: A training., extends: PPOPendulum, networks: {actor_network: {scale: drop}},"
    " policy: {explore: {gsde: {sigma: 0.6}}}}\n",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": text for name, text in SCHEMAS.items()}, "smooth")
    with imported(files, "smooth", tmp_path_factory.mktemp("smooth")) as made:
        yield made


def module_of(package: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")


def test_log_probabilities_of_a_batch_are_those_that_the_loss_finds(package: ModuleType) -> None:
    module = module_of(package, "on_policy")
    parts = module.OnPolicy(small_config(module, num_envs=3, num_steps=252))
    batch: Any = parts.collector.next()
    dist = parts.actor_network.get_dist(batch.select("observation"))
    torch.testing.assert_close(dist.log_prob(batch["action"]), batch["action_log_prob"], rtol=1e-3, atol=1e-3)
    parts.estimator(batch)
    assert abs(float(parts.loss(batch)["kl_approx"])) < 1e-4
    noise = batch["_gsde_noise"]
    changed = (noise[:, 1:] != noise[:, :-1]).flatten(2).any(-1)
    assert torch.equal(changed, batch["is_init"].squeeze(-1)[:, 1:])
    assert changed.any(), "no second episode"


def test_the_buffer_holds_neither_features_nor_noise_and_evaluations_take_the_mean(
    package: ModuleType,
) -> None:
    module = module_of(package, "off_policy")
    parts = module.OffPolicy(small_config(module, random_frames=0))
    assert set(parts.stored) == {
        "observation", ("next", "observation"), "action", ("next", "reward"), ("next", "done"), ("next", "terminated"),
    }  # fmt: skip
    seen = parts.eval_env.reset()
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        action = parts.policy(seen.clone())["action"]
    assert torch.equal(action, 2 * parts.actor_network(seen.clone())["loc"].tanh())
    moved = parts.actor_optimizer.param_groups[0]["params"]
    assert any(one is parts.actor_network.module[0].module[-1].module.exploration.log_sigma for one in moved)


def test_a_soft_actor_critic_learns_to_hold_the_pendulum_up(package: ModuleType, tmp_path: Path) -> None:
    module = module_of(package, "off_policy")
    config = module.OffPolicyConfig(total_frames=4_800, evaluate_every=4_800, evaluate_episodes=20)
    module.train(config, folder=tmp_path / "run")
    (score,) = [row["evaluation"] for row in read_log(tmp_path / "run" / "log.csv") if "evaluation" in row]
    assert score > -400  # -1,300 at first


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_interrupted_training_goes_on_bit_by_bit(
    package: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(package, name)
    config = small_config(module, random_frames=4) if name == "off_policy" else small_config(module)
    whole = module.train(config, folder=tmp_path / "whole")
    with stopped_after(module, 9, monkeypatch):
        module.train(config, folder=tmp_path / "stopped")
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
