"""Workers whose policy carries something from step to step: states of recurrent layers, and noise that is kept."""

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

from tests.pipelines.small import differing, parts_class, small_config
from tests.pipelines.test_simulators import stopped_after
from tests.support import generate, imported

IMPORTS = (
    "./bare, specgen_std/pipelines/ppo_pendulum_gru, specgen_std/losses/ppo, "
    "specgen_std/pipelines/ddpg_pendulum_recorded, specgen_std/losses/ddpg"
)
BARE = """\
specgen: 1
doc: An environment.
import: [specgen_std/envs/pendulum, specgen_std/transforms/reward_sum, specgen_std/transforms/step_counter]
chains:
  Bare:
    doc: Pendulum that does not say where episodes begin.
    env: Pendulum
    transforms: [{StepCounter: {max_steps: 3}}, RewardSum]
"""
HEAD = f"specgen: 1\ndoc: A training.\nimport: [{IMPORTS}]\npipelines:\n"
SCHEMAS = {
    "bare": BARE,
    "memory": HEAD
    + "  Memory: {doc: A training., extends: PPOPendulumGRU, env: Bare, workers: {processes: 2}}\n",
    "noise": HEAD
    + "  Noise: {doc: A training., extends: DDPGPendulumRecorded, env: Bare, workers: {processes: 2}}\n",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": text for name, text in SCHEMAS.items()}, "carried")
    with imported(files, "carried", tmp_path_factory.mktemp("carried")) as made:
        yield made


def module_of(package: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")


def test_states_are_handed_on_within_workers_and_their_replacements(package: ModuleType) -> None:
    module = module_of(package, "memory")
    parts = parts_class(module)(small_config(module, num_envs=4, num_steps=8, minibatches=2))
    batches = iter(parts.collector)
    before: Any = next(batches)
    os.kill(parts.collector.worker_pids[1], signal.SIGKILL)
    after: Any = next(batches)
    assert parts.collector.lives == [0, 1]
    parts.collector.shutdown()
    for batch in (before, after):
        assert batch.batch_size == (4, 8)
        begins = batch["is_init"].squeeze(-1)
        assert begins[:, 1:].any()
        state, written = batch["memory_h"], batch["next", "memory_h"]
        assert (state[begins] == 0).all()
        assert (written != 0).any()
        assert torch.equal(state[:, 1:][~begins[:, 1:]], written[:, :-1][~begins[:, 1:]])
    going_on = ~after["is_init"][:2, 0, 0]
    assert torch.equal(after["memory_h"][:2, 0][going_on], before["next", "memory_h"][:2, -1][going_on])
    parts.estimator(after)
    assert abs(float(parts.loss(after)["kl_approx"])) < 1e-4  # over sequences the loss finds what was stored


def test_a_training_that_was_stopped_goes_on_bit_by_bit(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(package, "memory")
    config = small_config(module, num_envs=4)
    whole = module.train(config, folder=tmp_path / "whole")
    with stopped_after(module, 9, monkeypatch):
        module.train(config, folder=tmp_path / "stopped")
    torch.manual_seed(12345)
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    for parts in (whole, resumed):
        parts.collector.shutdown()


def test_noise_that_drifts_begins_anew_with_episodes_of_workers(package: ModuleType) -> None:
    module = module_of(package, "noise")
    parts = parts_class(module)(small_config(module, num_envs=4, num_steps=8, random_frames=0))
    batch: Any = next(iter(parts.collector))
    parts.collector.shutdown()
    assert batch["_ou_steps"].tolist() == [[1, 2, 3, 1, 2, 3, 1, 2]] * 4
