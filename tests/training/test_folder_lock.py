"""Two trainings at once in one folder are refused; what a killed one leaves behind is not in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from specgen_runtime.training import ConfigChangedError, FolderInUseError, folder_lock

from tests.training.small_run import run_in

HOLDER = """\
import sys, time
from pathlib import Path
from specgen_runtime.training.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_PATIENCE", 0.2)


def test_a_folder_belongs_to_one_process_until_that_is_killed(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.updates = 3
        run.save()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FolderInUseError, match=f"is in use: process {holder.pid} on .* trains there"):
            run_in(tmp_path, resume=True).__enter__()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert (tmp_path / "run.lock").read_text(encoding="utf-8").startswith(f"process {holder.pid} ")
    with run_in(tmp_path, resume=True) as resumed:
        assert resumed.updates == 3


def test_a_folder_belongs_to_one_run_of_a_process(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.save()
        with pytest.raises(FolderInUseError, match=f"process {os.getpid()} "):
            run_in(tmp_path, resume=True).__enter__()
        run.updates += 1
        run.save()
    with run_in(tmp_path, resume=True) as resumed:
        assert resumed.updates == 1


def test_a_run_that_does_not_begin_holds_nothing(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.save()
    with pytest.raises(FileExistsError):
        run_in(tmp_path).__enter__()
    with pytest.raises(ConfigChangedError):
        run_in(tmp_path, {"lr": 1.0}, resume=True).__enter__()
    with run_in(tmp_path, resume=True):
        pass
