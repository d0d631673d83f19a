"""Processes that compile files beside this one, where there are many of them.

They are started anew, not forked, and without `multiprocessing`, which would run the script again that called the
compiler. Whatever goes wrong in one, its files are compiled in this process, where every mistake is reported.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specgen.compile_file import CompiledFile, Interface
    from specgen.link import Job

MANY = 60
"""Of fewer files the start of a process takes longer than their compilation."""
_MOST = 4
"""So many processes work at most, this one included; each takes 80 MB."""
_CHUNK = 24
"""So many files are compiled at once at most."""


class Workers:
    """Processes that end with the block that they are made for."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Workers:
        """Start nothing yet: see `prepare`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.kill()
            process.communicate()
        self._processes = []

    def prepare(self, count: int) -> None:
        """Start what it takes to compile so many files; meanwhile this process can go on."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = min(cores, _MOST) - 1 if count >= MANY and sys.executable else 0
        for _ in range(wanted - len(self._processes)):
            code = (
                f"import sys; sys.path[:] = {sys.path!r}; from specgen.project.workers import serve; serve()"
            )
            with suppress(OSError):
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-c", code],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                    )
                )

    def compile_files(
        self, jobs: Sequence[Job], interfaces: dict[str, Interface]
    ) -> dict[str, CompiledFile] | None:
        """The compiled files; None when they are better compiled one after the other.

        Args:
            jobs: the files, those that are imported before those that import them.
            interfaces: those of the files that they import; takes those of the jobs.
        """
        self.prepare(len(jobs))
        if len(jobs) < MANY or not self._processes:
            return None
        done: dict[str, CompiledFile] = {}
        for level in _levels(jobs):
            done |= self._compile_level(level, interfaces)
            interfaces |= {path: file.interface for path, file in done.items() if file.interface is not None}
        return {job.path: done[job.path] for job in jobs}

    def _compile_level(
        self, jobs: Sequence[Job], interfaces: dict[str, Interface]
    ) -> dict[str, CompiledFile]:
        """Compile files that do not import each other."""
        from specgen.compile_file import compile_files

        size = min(_CHUNK, -(-len(jobs) // (2 * len(self._processes) + 2)))
        chunks: queue.SimpleQueue[Sequence[Job]] = queue.SimpleQueue()
        for start in range(0, len(jobs), size):
            chunks.put(jobs[start : start + size])
        done: dict[str, CompiledFile] = {}
        left: list[Sequence[Job]] = []

        def serve(process: subprocess.Popen[bytes]) -> None:
            while (chunk := _next(chunks)) is not None:
                try:
                    done.update(_ask(process, chunk, interfaces))
                except Exception:
                    # A process that is gone, or has met a fault of specgen's.
                    left.append(chunk)
                    return

        busy = self._processes if len(jobs) > size else []
        threads = [threading.Thread(target=serve, args=(process,), daemon=True) for process in busy]
        for thread in threads:
            thread.start()
        while (chunk := _next(chunks)) is not None:
            done |= compile_files(chunk, dict(interfaces), {})
        for thread in threads:
            thread.join()
        for chunk in left:
            done |= compile_files(chunk, dict(interfaces), {})
        return done


def _next(chunks: queue.SimpleQueue[Sequence[Job]]) -> Sequence[Job] | None:
    try:
        return chunks.get_nowait()
    except queue.Empty:
        return None


def _levels(jobs: Sequence[Job]) -> list[list[Job]]:
    """The files, each in a level behind those of the files that it imports."""
    level: dict[str, int] = {}
    levels: list[list[Job]] = []
    for job in jobs:
        level[job.path] = at = max((level[path] + 1 for path in job.imports if path in level), default=0)
        levels += [[] for _ in range(at + 1 - len(levels))]
        levels[at].append(job)
    return levels


def _ask(
    process: subprocess.Popen[bytes], jobs: Sequence[Job], interfaces: Mapping[str, Interface]
) -> dict[str, CompiledFile]:
    assert process.stdin is not None
    assert process.stdout is not None
    needed = {path: interfaces[path] for job in jobs for path in job.imports if path in interfaces}
    _send(process.stdin, (jobs, needed))
    answer: dict[str, CompiledFile] = _receive(process.stdout)
    return answer


def serve() -> None:
    """Compile what the other process sends, until it ends. Nobody else can: the pipes have no name."""
    from specgen.compile_file import compile_files

    gc.disable()  # the process is short-lived, and what it makes has few cycles
    with suppress(EOFError):
        while True:
            jobs, interfaces = _receive(sys.stdin.buffer)
            _send(sys.stdout.buffer, compile_files(jobs, interfaces, {}))


def _send(stream: IO[bytes], value: object) -> None:
    raw = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(len(raw).to_bytes(8, "little") + raw)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(head, "little")))
