"""The folder of a training: it is made, and `FolderLock` lets one training at a time write there."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

from specgen_runtime.reported import ReportedError

__all__ = ["FolderInUseError", "FolderLock", "FolderUsedError", "made_folder"]

_NAME = "run.lock"

_PATIENCE = 2.0
"""Seconds that are waited for processes that a killed training left behind, and that end by themselves."""


class FolderUsedError(ReportedError, FileExistsError):
    """A folder that holds a training already, or a place that something else has."""


class FolderInUseError(ReportedError, RuntimeError):
    """A folder that another training writes to."""


class FolderNotMadeError(ReportedError, OSError):
    """A folder that the system does not let us make."""


def made_folder(folder: Path) -> Path:
    """Make a folder, with those above it, unless it is there.

    Raises:
        FolderUsedError: a file is in its place.
        FolderNotMadeError: the system refuses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FolderUsedError(
            f"{folder} is no folder, or lies below a file: choose another one for the run"
        ) from error
    except OSError as error:
        raise FolderNotMadeError(
            f"the folder {folder} can't be made: {error.strerror}. Choose another one for the run"
        ) from error
    return folder


class FolderLock:
    """Holds a folder by a lock of the operating system on `run.lock` in it, which says by whom.

    The system lets go of it when the process ends, however it ends: the file that a killed training leaves behind holds
    nothing.

    Args:
        folder: what is held; it exists.

    Raises:
        FolderInUseError: another training holds it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _NAME
        self._file: IO[str] = path.open("a+", encoding="utf-8")
        deadline = time.monotonic() + _PATIENCE
        while not _locked(self._file):
            if time.monotonic() > deadline:
                self._file.seek(0)
                holder = self._file.read().strip() or "another process"
                self._file.close()
                raise FolderInUseError(
                    f"{folder} is in use: {holder} trains there. Wait for its end, or choose another folder"
                )
            time.sleep(0.1)
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let go of the folder; may be repeated."""
        with contextlib.suppress(OSError):
            self._file.close()


def _locked(file: IO[str]) -> bool:
    """Take the lock of an open file; False if another one has it."""
    try:
        if sys.platform == "win32":
            file.seek(1 << 20)  # behind what it says, which others may read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
