"""What a run shows and sends elsewhere, and how it answers Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from specgen_std.envs.cartpole import CartPole

from tests.training.small_run import Config, run_in


def test_lines_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with run_in(tmp_path, progress=True) as run:
        run.frames = 500
        run.updates = 1
        run._progress.update(500)
        run.log(evaluation=1)
        run.log(evaluation=2)  # too soon for another line
        run.save()
    with run_in(tmp_path, Config(0.2), resume=True, may_change=["lr"], progress=True):
        pass
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("500/1000 frames  evaluation 1")
    assert said[1].startswith("500/1000 frames  evaluation 2")  # the last row is shown at the end
    assert said[2:] == [
        f"ended at 500 frames, in {tmp_path}",
        f"resumed {tmp_path} at 500 frames",
        "lr was 0.1, is 0.2 from here on",
        f"ended at 500 frames, in {tmp_path}",
    ]


def test_what_learns_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No update at all, losses that are no numbers, and a run that nobody saved."""
    with run_in(tmp_path, progress=True) as run:
        run.frames = 500
        run.log(evaluation=1)
    with run_in(tmp_path, resume=True, progress=True) as run:
        run.frames = 200
        run.add({"loss_actor": 1.0, "explained_variance": float("nan")})
        run.log()
        run.add({"loss_actor": float("nan"), "critic_loss": torch.tensor(float("inf"))})
        run.log(evaluation=2)
        run.add({"loss_actor": float("nan")})  # told once
        run.log()
    said = [line for line in capsys.readouterr().err.splitlines() if "frames_per_second" not in line]
    assert said == [
        f"ended at 500 frames, in {tmp_path}, without an update: nothing was learned",
        f"no checkpoint was written in {tmp_path}: it begins anew",
        "loss_actor is nan, critic_loss is inf at 200 frames: what is learned from here on is lost. "
        "Smaller step sizes may help, or gradients that are clipped",
        f"ended at 200 frames, in {tmp_path}",
    ]


def test_what_failed_has_not_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), run_in(tmp_path, progress=True) as run:
        run.log(evaluation=1 / 0)
    assert "ended" not in capsys.readouterr().err


def test_a_bar_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with run_in(tmp_path, progress=True) as run:
        run.count(CartPole(batch_size=[10]).rollout(5))
        run.log(evaluation=3)
    said = capsys.readouterr().err
    assert "/1000" in said
    assert "evaluation 3" in said


class FakeWriter:
    made: ClassVar[list[Any]] = []

    def __init__(self, folder: str, purge_step: int | None) -> None:
        self.folder, self.purge_step, self.scalars, self.closed = folder, purge_step, [], False
        self.made.append(self)

    def add_text(self, name: str, text: str) -> None:
        self.text = (name, text)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = FakeWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(FakeWriter, "made", [])
    with run_in(tmp_path, loggers=["tensorboard"]) as run:
        run.frames = 7
        run.log(evaluation=3)
        run.save()
    with run_in(tmp_path, loggers=["tensorboard"], resume=True):
        pass
    first, second = FakeWriter.made
    assert ("evaluation", 3, 7) in first.scalars
    assert "lr: 0.1" in first.text[1]
    assert first.folder == str(tmp_path / "tensorboard")
    assert first.closed
    assert (first.purge_step, second.purge_step) == (None, 8)  # what is behind the checkpoint is hidden


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, Any]] = []
    logged: list[tuple[dict[str, float], int]] = []

    class FakeRun:
        id = "abc"

        def log(self, numbers: dict[str, float], step: int) -> None:
            logged.append((numbers, step))

        def finish(self) -> None:
            logged.append(({}, -1))

    module = types.ModuleType("wandb")
    module.init = lambda **options: begun.append(options) or FakeRun()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    for resume in (False, True):
        with run_in(tmp_path, loggers=["wandb"], resume=resume) as run:
            run.frames = 7
            run.log(evaluation=3)
            run.save()
    assert [(options["id"], options["resume"]) for options in begun] == [(None, None), ("abc", "allow")]
    assert begun[0]["config"] == {"lr": 0.1, "sizes": [64, 64]}
    assert [(numbers.get("evaluation"), step) for numbers, step in logged] == [(3, 7), (None, -1)] * 2


def test_loggers_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match=r"needs the package wandb: pip install 'specgen-rl\[wandb\]'"):
        run_in(tmp_path / "a", loggers=["wandb"]).__enter__()
    with run_in(tmp_path / "a"):  # nothing was begun there
        pass
    with pytest.raises(ValueError, match="there is no 'mlflow', only tensorboard, wandb"):
        run_in(tmp_path / "b", loggers=["mlflow"]).__enter__()


def test_the_second_ctrl_c_ends_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with run_in(tmp_path) as run:
        run.frames = 5
        assert not run.due("checkpoint", 100)
        os.kill(os.getpid(), signal.SIGINT)
        assert not run.due("evaluate", 100)
        assert run.due("checkpoint", 100)
        with pytest.raises(SystemExit) as ended:
            run.save()
        assert ended.value.code == 130
        assert (tmp_path / "checkpoint-5" / "state.pt").is_file()
        with pytest.raises(SystemExit) as at_once:
            os.kill(os.getpid(), signal.SIGINT)
        assert at_once.value.code == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err.count("Ctrl-C again ends at once") == 1


def test_a_thread_gets_no_signals(tmp_path: Path) -> None:
    found: list[int] = []

    def train() -> None:
        with run_in(tmp_path) as run:
            run.frames = 3
            run.save()
            found.append(run.frames)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert found == [3]
