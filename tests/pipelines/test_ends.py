"""What ends passes over a batch and trainings before their time, and checkpoints without a buffer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from specgen.settings import Config
from tests.pipelines.small import small_config
from tests.support import LIBRARY, compile_sources, imported, library_records

CONFIG = Config("schemas", "made", "made")
PPO = ("PPOPendulum", "pipelines/ppo_pendulum, chains/pendulum, losses/ppo")
DQN = ("DQNCartPole", "pipelines/dqn_cartpole, chains/cartpole, losses/dqn")


@contextmanager
def trained(parent: tuple[str, str], changes: str, folder: Path) -> Iterator[Any]:
    name, imports = parent
    named = ", ".join(f"specgen_std/{one}" for one in imports.split(", "))
    text = f"specgen: 1\ndoc: A training.\nimport: [{named}]\npipelines:\n  Training:\n    extends: {name}\n    {changes}\n"
    made = compile_sources({"schemas/a.yaml": text}, CONFIG, gymnasium=library_records(), library=LIBRARY)
    assert [str(item) for item in made.diagnostics] == []
    with imported({path.removeprefix("made/"): text for path, text in made.files.items()}, "made", folder):
        yield importlib.import_module("made.a")


@pytest.mark.parametrize("when", ["batch", "epoch"])
def test_passes_end_where_the_policy_has_moved_far(when: str, tmp_path: Path) -> None:
    """After the update that moved it: one for each batch, and all of them where the bound is never reached."""
    changes = (
        f"value_estimator: {{gae: {{}}, when: {when}}}\n    data: {{on_policy: {{until: kl_approx > 0.03}}}}"
    )
    with trained(PPO, changes, tmp_path) as module:
        assert module.TrainingConfig().max_kl_approx == 0.03
        updates = {}
        for bound in (-1e9, 1e9):
            config = small_config(module, max_kl_approx=bound)
            module.train(config, folder=tmp_path / f"{bound}")
            updates[bound] = read_log(tmp_path / f"{bound}" / "log.csv")[-1]["updates"]
        batches = config.total_frames // (config.num_envs * config.num_steps)
        assert updates[-1e9] == batches
        assert (
            updates[1e9]
            == batches * config.epochs * config.num_envs * config.num_steps // config.minibatch_size
        )


def test_a_metric_of_each_sample_is_logged_as_its_mean_and_ends_passes(tmp_path: Path) -> None:
    changes = "loss: {KLPENPPOLoss: {}}\n    data: {on_policy: {until: kl > 0.5}}"
    with trained(PPO, changes, tmp_path) as module:
        parts = module.Training(small_config(module, num_steps=8))
        with torch.no_grad():
            batch = parts.env.rollout(8, parts.policy, break_when_any_done=False)
        parts.estimator(batch)
        batch = batch.reshape(-1)
        torch.manual_seed(1)
        kl = parts.loss(batch)["kl"]
        assert kl.shape == batch.shape
        torch.manual_seed(1)
        assert torch.equal(module.update(parts, batch).kl, kl.mean())
        updates = {}
        for bound in (-1e9, 1e9):
            config = small_config(module, max_kl=bound)
            module.train(config, folder=tmp_path / f"{bound}")
            last = read_log(tmp_path / f"{bound}" / "log.csv")[-1]
            updates[bound] = last["updates"]
            assert isinstance(last["kl"], float)
        assert updates[-1e9] < updates[1e9]


@pytest.mark.parametrize("when", ["batch", "epoch"])
def test_minibatches_may_be_of_neighbours(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing draws their order, and nothing of it is in a checkpoint."""
    changes = f"value_estimator: {{gae: {{}}, when: {when}}}\n    data: {{on_policy: {{shuffle: false}}}}"
    with trained(PPO, changes, tmp_path) as module:
        batches, update = [], module.update

        def noted(parts: Any, batch: Any) -> Any:
            batches.append(batch["observation"])
            return update(parts, batch)

        monkeypatch.setattr(module, "update", noted)
        config = small_config(module, total_frames=8, epochs=2, minibatch_size=4)
        parts = module.train(config, folder=tmp_path / "run")
        assert len(batches) == 4
        assert torch.equal(torch.cat(batches[:2]), torch.cat(batches[2:]))
        assert "shuffling" not in parts.state_dict()


def test_a_training_ends_after_its_hours(tmp_path: Path) -> None:
    with trained(DQN, "stop: {hours: 2.5}", tmp_path) as module:
        assert module.TrainingConfig().stop_hours == 2.5
        config = small_config(module, stop_hours=1e-12)
        module.train(config, folder=tmp_path / "run")
        assert not list((tmp_path / "run").glob("log.csv")) or not read_log(tmp_path / "run" / "log.csv")
        longer = small_config(module, stop_hours=1.0)
        module.train(longer, folder=tmp_path / "run", resume=True)
        assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == config.total_frames


def test_a_training_ends_after_its_updates(tmp_path: Path) -> None:
    """With the batch that brings them; a resumed one goes on to more of them, or to the frames."""
    with trained(DQN, "stop: {updates: 50_000}", tmp_path) as module:
        assert module.TrainingConfig().total_updates == 50_000
        config = small_config(module, total_updates=3)
        module.train(config, folder=tmp_path / "run")
        last = read_log(tmp_path / "run" / "log.csv")[-1]
        assert last["updates"] == 2 * config.updates
        assert last["frames"] < config.total_frames
        longer = small_config(module, total_updates=1_000)
        module.train(longer, folder=tmp_path / "run", resume=True)
        assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == config.total_frames


def test_episodes_of_evaluations_end_after_their_steps(tmp_path: Path) -> None:
    """A resumed training may change the number."""
    with trained(DQN, "evaluate: {max_steps: 7}", tmp_path) as module:
        config = small_config(module)
        assert config.evaluate_episode_steps == 7
        module.train(config, folder=tmp_path / "run")
        assert {row["evaluation"] for row in read_log(tmp_path / "run" / "log.csv")} == {
            7
        }  # a reward of 1 each
        longer = small_config(module, total_frames=2 * config.total_frames, evaluate_episode_steps=5)
        module.train(longer, folder=tmp_path / "run", resume=True)
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] == 5


def test_a_checkpoint_without_a_buffer_is_filled_again_before_updates(tmp_path: Path) -> None:
    with trained(DQN, "checkpoint: {buffer: false}", tmp_path) as module:
        config = small_config(module)
        module.train(config, folder=tmp_path / "run")
        checkpoint = max((tmp_path / "run").glob("checkpoint-*"))
        assert [path.name for path in checkpoint.iterdir()] == ["state.pt"]
        before = read_log(tmp_path / "run" / "log.csv")[-1]["updates"]
        longer = small_config(module, total_frames=2 * config.total_frames)
        parts = module.train(longer, folder=tmp_path / "run", resume=True)
        assert len(parts.buffer) == config.total_frames
        batches = (config.total_frames - config.warm_up_frames) // (config.num_envs * config.num_steps) + 1
        after = read_log(tmp_path / "run" / "log.csv")[-1]["updates"]
        assert after - before == batches * config.updates


def test_a_number_goes_along_lines_between_points(tmp_path: Path) -> None:
    changes = 'optimizer: {adam: {lr: "piecewise((0, 1.0e-3), (16, 5.0e-4), (16, 1.0e-4), (48, 0))"}}'
    with trained(DQN, changes, tmp_path) as module:
        config = small_config(module)
        assert (config.lr, config.lr_2, config.lr_4, config.lr_frames_4) == (1e-3, 5e-4, 0, 48)
        found: list[float] = []
        update = module.update

        def watching(parts: Any, batch: Any) -> Any:
            found.append(parts.optimizer.param_groups[0]["lr"])
            return update(parts, batch)

        module.update = watching
        module.train(config, folder=tmp_path / "run")
        frames = config.num_envs * config.num_steps
        assert found[0] == found[1] == pytest.approx(1e-3 - 5e-4 * (16 - frames) / 16)
        assert found[2] == pytest.approx(1e-4)  # from the jump on
        assert found[-1] == pytest.approx(1e-4 * frames / 32)
        assert sorted(found[2:], reverse=True) == found[2:]


@pytest.mark.parametrize("parent", [PPO, DQN], ids=["on_policy", "replay"])
def test_a_training_ends_after_its_updates_alone(parent: tuple[str, str], tmp_path: Path) -> None:
    """Schedules, evaluations and checkpoints go by updates then; a resumed one ends where a whole one does."""
    lr = '"linear(1.0e-3, 0.0)"'
    optimizer = f"optimizer: {{adam: {{lr: {lr}}}}}\n    evaluate: {{every: 4}}\n    checkpoint: {{every: 4}}"
    with trained(parent, f"{optimizer}\n    stop: {{frames: drop, updates: 8_000}}", tmp_path) as module:
        assert not hasattr(module.TrainingConfig(), "total_frames")
        assert module.TrainingConfig().total_updates == 8_000
        config = small_config(module)
        assert (config.total_updates, config.evaluate_every) == (12, 4)
        parts = module.train(config, folder=tmp_path / "whole")
        rows = read_log(tmp_path / "whole" / "log.csv")
        assert [row["updates"] for row in rows if "evaluation" in row] == [4, 8, 12]
        assert rows[-1]["frames"] > 0
        last = 12 - (4 if parent is PPO else config.updates)  # set in front of the last batch
        optimizer = parts.optimizer.param_groups[0]
        assert optimizer["lr"] == pytest.approx(1e-3 * (1 - last / 12))
        module.train(small_config(module, total_updates=4), folder=tmp_path / "cut")
        again = module.train(config, folder=tmp_path / "cut", resume=True)
        assert read_log(tmp_path / "cut" / "log.csv")[-1]["updates"] == 12
        assert again.optimizer.param_groups[0]["lr"] == optimizer["lr"]
