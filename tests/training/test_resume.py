"""A training that was killed and resumed is the one that was not, bit by bit."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log
from specgen_runtime.training.checkpoints import Checkpoints

from tests.training.dqn_cartpole import Config, train

TIMED = ("seconds", "frames_per_second")


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
        finally:
            os._exit(code)
    return process


def ended(process: int) -> int:
    """How a child ended: its exit code, or the signal that killed it as a negative number."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def last_checkpoint(folder: Path) -> Path:
    found = Checkpoints(folder, keep=2).last
    assert found is not None
    assert found.name.startswith(f"checkpoint-{Config().total_frames}")
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
            **dict(
                leaves(
                    torch.load(next((folder / "buffer").rglob("state.pt")), weights_only=True), ("buffer",)
                )
            ),
        }
        for folder in (found, expected)
    )
    assert list(ours) == list(theirs)
    assert len(ours) > 60
    for path, value in theirs.items():
        same = torch.equal(ours[path], value) if isinstance(value, torch.Tensor) else ours[path] == value
        assert same, path


def untimed(folder: Path) -> list[dict[str, float]]:
    return [
        {name: value for name, value in row.items() if name not in TIMED}
        for row in read_log(folder / "log.csv")
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert ended(in_a_child(train, Config(), folder, progress=False)) == 0
    return folder


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments(whole: Path, tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    seconds = read_log(whole / "log.csv")[-1]["seconds"]
    kills = 0
    while True:
        process = in_a_child(train, Config(), tmp_path / "run", resume=True, progress=False)
        if kills < 4:
            time.sleep(moments.uniform(0.05, 0.45) * seconds)
            os.kill(process, signal.SIGKILL)
        code = ended(process)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills >= 2
    assert_same_checkpoint(last_checkpoint(tmp_path / "run"), last_checkpoint(whole))
    assert untimed(tmp_path / "run") == untimed(whole)


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
    assert untimed(folder) == untimed(whole)
