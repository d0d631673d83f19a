"""A training that was killed and resumed is the one that was not, bit by bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.data import LazyMemmapStorage, LazyStackStorage, TensorDictReplayBuffer
from specgen_runtime.training import read_log
from specgen_runtime.training.checkpoints import Checkpoints
from specgen_std.pipelines import dqn_cartpole

from tests.pipelines.small import parts_class, pipeline, rows, small_config
from tests.training.dqn_cartpole import Config, train


class OwnCollector(dqn_cartpole.DQNCartPole):
    """Parts whose collector is written anew, and made when the state of a checkpoint is loaded into it."""

    @cached_property
    def collector(self) -> Any:
        return Collector(self.env, self.policy, frames_per_batch=4, total_frames=-1, init_random_frames=40)


class OwnStorage(dqn_cartpole.DQNCartPole):
    """Parts whose buffer keeps its rows otherwise."""

    storage: type[Any]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.buffer = TensorDictReplayBuffer(
            storage=self.storage(self.config.capacity),
            batch_size=self.config.batch_size,
            generator=torch.Generator().manual_seed(5),
        )


class RowsInFiles(OwnStorage):
    storage = LazyMemmapStorage


class RowsOneByOne(OwnStorage):
    storage = LazyStackStorage


PRINTED: dict[str, tuple[str, dict[str, Any], Any]] = {
    "recorded": ("iql_pendulum", {"total_updates": 160, "evaluate_every": 40, "checkpoint_every": 16}, None),
    "conservative": ("cql_pendulum", {}, None),
    "quantiles": ("tqc_pendulum", {}, None),
    "hindsight": ("dqn_bit_flip", {"num_steps": 12}, None),
    "several choices": ("branching_dqn_reacher", {}, None),
    "its own collector": ("dqn_cartpole", {"num_steps": 2}, OwnCollector),
    "rows in files": ("dqn_cartpole", {}, RowsInFiles),
    "rows one by one": ("dqn_cartpole", {}, RowsOneByOne),
}
"""Printed trainings: the module, numbers, and the class of the parts where it is not the printed one."""


def in_a_child(function: Any, *arguments: Any, **keywords: Any) -> int:
    """The process id of a copy of this process, which calls the function and is gone."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            function(*arguments, **keywords)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    return process


def ended(process: int) -> int:
    """How a child ended: its exit code, or the signal that killed it as a negative number."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def last_checkpoint(folder: Path, count: int = Config().total_frames) -> Path:
    """That of the end."""
    found = Checkpoints(folder, keep=2).last
    assert found is not None
    assert found.name.startswith(f"checkpoint-{count}")
    return found


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, (*path, key))
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from leaves(entry, (*path, place))
    else:
        yield path, value


def assert_same_checkpoint(found: Path, expected: Path) -> None:
    ours, theirs = (
        {
            **dict(leaves(torch.load(folder / "state.pt", weights_only=True))),
            **{
                (file.name,): file.read_bytes()
                for file in (folder / "buffer").rglob("*")
                if file.suffix in (".rows", ".json") and file.parent != folder / "buffer"
            },
            **{
                place: value
                for file in sorted((folder / "buffer").rglob("*.pt"))
                for place, value in leaves(torch.load(file, weights_only=True), ("buffer", file.name))
            },
        }
        for folder in (found, expected)
    )
    assert list(ours) == list(theirs)
    assert len(ours) > 60
    for path, value in theirs.items():
        same = torch.equal(ours[path], value) if isinstance(value, torch.Tensor) else ours[path] == value
        assert same, path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert ended(in_a_child(train, Config(), folder, progress=False)) == 0
    return folder


def train_and_kill(train: Callable[..., Any], whole: Path, folder: Path, seed: int) -> None:
    """Train to the end, and kill it up to four times on the way, at moments that follow from the time of a whole training."""
    moments = random.Random(seed)
    seconds = read_log(whole / "log.csv")[-1]["seconds"]
    while trained_and_killed(train, folder, moments, seconds) < 2:  # it was quicker than the whole one
        shutil.rmtree(folder)
        seconds /= 2


def trained_and_killed(
    train: Callable[..., Any], folder: Path, moments: random.Random, seconds: float
) -> int:
    """Train to the end, and kill it at moments of a training of so many seconds: how often that was."""
    kills = 0
    while True:
        process = in_a_child(train, folder=folder, resume=True)
        if kills < 4:
            time.sleep(moments.uniform(0.05, 0.45) * seconds)
            os.kill(process, signal.SIGKILL)
        code = ended(process)
        if code == 0:
            return kills
        assert code == -signal.SIGKILL
        kills += 1


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(whole: Path, tmp_path: Path, seed: int) -> None:
    train_and_kill(partial(train, Config(), progress=False), whole, tmp_path / "run", seed)
    assert_same_checkpoint(last_checkpoint(tmp_path / "run"), last_checkpoint(whole))
    assert rows(tmp_path / "run") == rows(whole)


@pytest.mark.parametrize("kind", PRINTED)
def test_printed_trainings_that_were_killed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, numbers, parts = PRINTED[kind]
    module = pipeline(name)
    monkeypatch.setattr(module, "draw_curve", lambda folder, **_: None)
    few = {"total_frames": 480, "evaluate_every": 96, "checkpoint_every": 24}
    config = small_config(module, **({} if "total_updates" in numbers else few) | numbers)
    train = partial(module.train, config, parts_class=parts or parts_class(module))
    count = getattr(config, "total_updates", None) or config.total_frames
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert ended(in_a_child(train, folder=whole)) == 0
    train_and_kill(train, whole, folder, seed=0)
    assert_same_checkpoint(last_checkpoint(folder, count), last_checkpoint(whole, count))
    assert rows(folder) == rows(whole)


def test_another_seed_is_another_training(whole: Path, tmp_path: Path) -> None:
    """What is compared above does depend on the training."""
    assert ended(in_a_child(train, Config(seed=1), tmp_path / "run", progress=False)) == 0
    with pytest.raises(AssertionError):
        assert_same_checkpoint(last_checkpoint(tmp_path / "run"), last_checkpoint(whole))


def train_with_errors_in(file: Path, folder: Path, **options: Any) -> None:
    """Train, with what is said on stderr in a file."""
    os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    train(Config(), folder, **options)


def test_ctrl_c_saves_and_ends_with_130(whole: Path, tmp_path: Path) -> None:
    folder, said = tmp_path / "run", tmp_path / "said"
    process = in_a_child(train_with_errors_in, said, folder)
    while not (folder / "checkpoints.json").is_file():
        time.sleep(0.01)
        assert os.waitpid(process, os.WNOHANG) == (0, 0), said.read_text()
    os.kill(process, signal.SIGINT)
    assert ended(process) == 130, said.read_text()
    assert "interrupted: saving at the next checkpoint" in said.read_text()
    assert "Traceback" not in said.read_text()
    again = tmp_path / "again"
    assert ended(in_a_child(train_with_errors_in, again, folder, resume=True)) == 0, again.read_text()
    assert "resumed" in again.read_text()
    assert_same_checkpoint(last_checkpoint(folder), last_checkpoint(whole))
    assert rows(folder) == rows(whole)
