"""Writing generated files: whole or not at all, and never over somebody's work."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from specgen.project.staleness import Report
from specgen.values import dataclass

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_LOCK = ".specgen.lock"
_LEFTOVER = re.compile(r"\..+\.[0-9]+\.tmp")
"""What `replace_all` calls a file until it is complete."""


class RefusedError(Exception):
    """Something on disk would be lost; nothing was written.

    `edited` were changed by hand and are overwritten only when told; `foreign` were never generated
    and are not overwritten at all.
    """

    def __init__(self, edited: tuple[str, ...], foreign: tuple[str, ...]) -> None:
        super().__init__(f"refused to overwrite {', '.join((*edited, *foreign))}")
        self.edited = edited
        self.foreign = foreign


@dataclass(frozen=True)
class Written:
    """What a build did."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


@contextmanager
def build_lock(root: Path, output: str) -> Iterator[None]:
    """Wait until no other build writes to the same folder, and keep others waiting.

    The system frees the lock when a build is killed.
    """
    folder = root / output
    folder.mkdir(parents=True, exist_ok=True)
    with _open_lock(folder) as file:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _open_lock(folder: Path) -> Iterator[IO[bytes] | _Folder]:
    if sys.platform == "win32":
        with (folder / _LOCK).open("ab") as file:
            yield file
        with suppress(OSError):
            (folder / _LOCK).unlink()
        return
    # Elsewhere the folder itself can be locked, and no file is left lying about.
    handle = _Folder(os.open(folder, os.O_RDONLY))
    try:
        yield handle
    finally:
        os.close(handle.fileno())


@dataclass(frozen=True)
class _Folder:
    descriptor: int

    def fileno(self) -> int:
        return self.descriptor


def write(report: Report, force: bool = False) -> Written:
    """Bring the disk to what is expected.

    Missing, changed and reformatted files are written, extra ones removed; an unchanged file is not touched. Each
    file appears at once and whole: readers see the old text or the new one, also after a crash.

    Args:
        report: What `compare` found; hold `build_lock` from there to here.
        force: Also overwrite (and remove) generated files that were edited by hand.

    Raises:
        RefusedError: Before anything is written, when work would be lost.
        OSError: When the disk refuses.

    """
    if report.foreign or (report.edited and not force):
        raise RefusedError(() if force else report.edited, report.foreign)
    edited = tuple(path for path in report.edited if path not in report.extra)
    paths = sorted({*report.missing, *report.changed, *report.reformatted, *edited})
    replace_all({report.root / path: report.expected[path] for path in paths})
    for path in report.extra:
        (report.root / path).unlink(missing_ok=True)
        _remove_empty(report.root / path)
    return Written(tuple(paths), report.extra, len(report.unchanged))


def replace_all(texts: dict[Path, str]) -> None:
    """Write all files: first beside their places, then, when all are complete, into them."""
    staged: list[tuple[Path, Path]] = []
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
            staged.append((beside, file))
            with beside.open("w", encoding="utf-8", newline="\n") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            if file.exists():
                shutil.copymode(file, beside)
        for beside, file in staged:
            beside.replace(file)
    finally:
        for beside, _ in staged:
            beside.unlink(missing_ok=True)


def remove_leftovers(folder: Path, older: float = 0) -> None:
    """Remove the files that killed builds left beside those that they were about to write.

    Args:
        folder: Where they wrote; hold `build_lock`, or a build that runs may lose what it is about to write.
        older: Remove only what was last written so many seconds ago.

    """
    for path in folder.rglob(".*.tmp"):
        if not _LEFTOVER.fullmatch(path.name) or not path.is_file():
            continue
        if not older or path.stat().st_mtime < time.time() - older:
            path.unlink(missing_ok=True)


def _remove_empty(file: Path) -> None:
    """Remove the folder of a removed file when nothing is left in it but Python's cache of it."""
    cache = file.parent / "__pycache__"
    if {item.name for item in file.parent.iterdir()} == {"__pycache__"}:
        shutil.rmtree(cache, ignore_errors=True)
    with suppress(OSError):
        file.parent.rmdir()
