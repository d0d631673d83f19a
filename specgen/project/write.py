"""Writing generated files: whole or not at all, and never over somebody's work."""

from __future__ import annotations

import os
import re
import shutil
import sys
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
_WRITERS = 16
"""Threads that write files."""


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
    beside = {file: file.with_name(f".{file.name}.{os.getpid()}.tmp") for file in texts}
    try:
        for folder in {file.parent for file in texts}:
            folder.mkdir(parents=True, exist_ok=True)
        _write_beside([(beside[file], file, text) for file, text in texts.items()])
        for file, complete in beside.items():
            complete.replace(file)
    finally:
        for left in beside.values():
            left.unlink(missing_ok=True)


def _write_beside(texts: list[tuple[Path, Path, str]]) -> None:
    """Write texts, each beside the file that it is for, until the disk has them."""
    if len(texts) < 2:
        for one in texts:
            _write_one(one)
        return
    from concurrent.futures import ThreadPoolExecutor

    # a disk takes what several threads wait for at once in the time of one
    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in pool.map(_write_one, texts):
            pass


def _write_one(what: tuple[Path, Path, str]) -> None:
    beside, file, text = what
    with beside.open("w", encoding="utf-8", newline="\n") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    if file.exists():
        shutil.copymode(file, beside)


def is_leftover(name: str) -> bool:
    """Whether a file is called as those are that killed builds leave beside the ones that they were about to write."""
    return name.endswith(".tmp") and _LEFTOVER.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove what killed builds have left; hold `build_lock`, or a build that runs may lose what it is about to write."""
    for inner, _, names in os.walk(folder):
        for name in filter(is_leftover, names):
            Path(inner, name).unlink(missing_ok=True)


def _remove_empty(file: Path) -> None:
    """Remove the folder of a removed file when nothing is left in it but Python's cache of it."""
    cache = file.parent / "__pycache__"
    if {item.name for item in file.parent.iterdir()} == {"__pycache__"}:
        shutil.rmtree(cache, ignore_errors=True)
    with suppress(OSError):
        file.parent.rmdir()
