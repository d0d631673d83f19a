"""Pipelines whose data are collected by workers: they train, go on after one of them was killed, and resume."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import MultiAsyncCollector, MultiSyncCollector
from specgen_runtime.training import read_log

from tests.pipelines.small import differing, parts_class, rows, small_config
from tests.pipelines.test_simulators import stopped_after
from tests.support import generate, imported

HEAD = "specgen: 1\ndoc: A training.\nimport: [{imports}]\npipelines:\n"
PPO = "specgen_std/pipelines/ppo_pendulum, specgen_std/chains/pendulum, specgen_std/losses/ppo"
DQN = "specgen_std/pipelines/dqn_cartpole, specgen_std/chains/cartpole, specgen_std/losses/dqn"
SAC = "specgen_std/pipelines/sac_mountain_car, specgen_std/chains/mountain_car, specgen_std/losses/sac"
SCHEMAS = {
    "native": HEAD.format(imports=PPO)
    + "  Native: {doc: A training., extends: PPOPendulum, workers: {processes: 2}}\n",
    "simulated": HEAD.format(imports=DQN)
    + "  Simulated: {doc: A training., extends: DQNCartPole, env: CartPoleGymTrain, workers: {processes: 2}}\n",
    "unordered": HEAD.format(imports=SAC)
    + "  Unordered: {doc: A training., extends: SACMountainCar, workers: {processes: 2, sync: false}}\n",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": text for name, text in SCHEMAS.items()}, "worked")
    with imported(files, "worked", tmp_path_factory.mktemp("worked")) as made:
        yield made


def module_of(package: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")


def test_a_killed_worker_is_replaced_and_the_training_ends(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed between two batches of a printed training, which does not notice."""
    module = module_of(package, "simulated")
    update = module.update
    killed: list[int] = []

    def killing(parts: Any, *arguments: Any) -> Any:
        if not killed:
            killed.append(parts.collector.worker_pids[1])
            os.kill(killed[0], signal.SIGKILL)
        return update(parts, *arguments)

    monkeypatch.setattr(module, "update", killing)
    parts = module.train(small_config(module, num_envs=4), folder=tmp_path / "run")
    assert type(parts.collector) is MultiSyncCollector
    assert parts.collector.lives == [0, 1]
    assert killed[0] not in parts.collector.worker_pids
    log = read_log(tmp_path / "run" / "log.csv")
    assert log[-1]["frames"] == 48
    assert len(parts.buffer) == 48
    parts.collector.shutdown()


def test_workers_explore_each_for_itself_and_the_same_seed_gives_the_same(package: ModuleType) -> None:
    module = module_of(package, "native")
    made = [parts_class(module)(small_config(module, seed=seed, num_envs=4)) for seed in (1, 1, 2)]
    one, same, other = (next(iter(parts.collector)) for parts in made)
    assert one.batch_size == (4, 4)
    assert one.names == [None, "time"]
    assert (one == same).all()
    assert not torch.equal(one["action"], other["action"])
    noise = (one["action_latent"] if "action_latent" in one else one["action"]) - one["loc"]
    assert not torch.allclose(noise[:2], noise[2:]), "both workers drew the same"
    assert (one["policy_version"] == 1).all()
    for parts in made:
        parts.collector.shutdown()


def test_weights_reach_the_workers_after_each_update(package: ModuleType) -> None:
    module = module_of(package, "native")
    parts = parts_class(module)(small_config(module, num_envs=4))
    batches = iter(parts.collector)
    next(batches)
    with torch.no_grad():
        for parameter in parts.policy.parameters():
            parameter.zero_()
        parts.policy.module[0].module[0][-1].bias.fill_(0.25)
    assert (next(batches)["loc"] == 0.25).all()
    parts.collector.shutdown()


def test_a_training_that_was_stopped_goes_on_bit_by_bit(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(package, "native")
    config = small_config(module, num_envs=4, minibatch_size=8)
    whole = module.train(config, folder=tmp_path / "whole")
    with stopped_after(module, 10, monkeypatch):
        module.train(config, folder=tmp_path / "stopped")
    torch.manual_seed(12345)
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")
    for parts in (whole, resumed):
        parts.collector.shutdown()


def test_batches_of_the_worker_that_is_ready_first(package: ModuleType, tmp_path: Path) -> None:
    module = module_of(package, "unordered")
    config = small_config(module, num_envs=4)
    parts = module.train(config, folder=tmp_path / "run")
    assert type(parts.collector) is MultiAsyncCollector
    batch = next(iter(parts.collector))
    assert batch.batch_size == (2, 8)  # half of the environments, so many frames as without workers
    parts.collector.shutdown()
    resumed = module.train(
        small_config(module, num_envs=4, total_frames=96), folder=tmp_path / "run", resume=True
    )
    assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == 96
    resumed.collector.shutdown()


def test_workers_that_do_not_divide_the_environments(package: ModuleType) -> None:
    module = module_of(package, "native")
    with pytest.raises(ValueError, match="workers must divide num_envs, got 3"):
        small_config(module, num_envs=4, workers=3)
