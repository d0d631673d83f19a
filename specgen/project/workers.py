"""Processes that read and compile files beside this one, where there are many of them.

They are started anew, not forked, and without `multiprocessing`, which would run the script again that called the
compiler. Whatever goes wrong in one, its files are done in this process, where every mistake is reported.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from specgen.compile_file import CompiledFile, Interface
    from specgen.link import Job, Source
    from specgen.schema.load import SchemaFile
    from specgen.source.outline import Outline

T = TypeVar("T")

MANY = 60
"""Of fewer files the start of a process takes longer than their compilation."""
_MOST = 4
"""So many processes work at most, this one included; each takes 80 MB."""
_CHUNK = (6, 24)
"""So many files are compiled at once, at least and at most; each time a formatter has to be started."""
_CHUNK_READ = (8, 8)
"""So many files are read at once."""


class Workers:
    """Processes that end with the block that they are made for."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._processes: list[_Process] = []

    def __enter__(self) -> Workers:
        """Start nothing yet: that is done for many files."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.end()
        self._processes = []

    def read_files(
        self, sources: Mapping[str, Source], files: dict[str, SchemaFile], into: dict[str, Outline]
    ) -> None:
        """Read files, as the function of that name does; a process keeps the declarations that it has read.

        Args:
            sources: path of each file and its text.
            files: takes the declarations of those that are read in this process.
            into: takes the outline of each.
        """
        self._start(len(sources))
        from specgen.compile_file import read_files  # meanwhile they import, too

        chunks = [dict(chunk) for chunk in _in_chunks(list(sources.items()), _CHUNK_READ)]

        def ask(process: _Process, chunk: dict[str, Source]) -> None:
            outlines: dict[str, Outline] = process.ask("read", chunk)
            into.update(outlines)
            process.holds.update(chunk)

        # nobody waits for a process that is still starting: it is there in time for the compilation
        self._share({None: chunks}, ask, lambda chunk: read_files(chunk, files, into), started=True)

    def compile_files(
        self, jobs: Sequence[Job], interfaces: dict[str, Interface], files: dict[str, SchemaFile]
    ) -> dict[str, CompiledFile] | None:
        """The compiled files; None when they are better compiled one after the other.

        Args:
            jobs: the files, those that are imported before those that import them.
            interfaces: those of the files that they import; takes those of the jobs.
            files: the declarations of those that this process has read; loses those that it compiles.
        """
        self._start(len(jobs))
        if len(jobs) < MANY or not self._processes:
            return None
        done: dict[str, CompiledFile] = {}
        for level in _levels(jobs):
            done |= self._compile_level(level, interfaces, files)
            interfaces |= {path: file.interface for path, file in done.items() if file.interface is not None}
        return {job.path: done[job.path] for job in jobs}

    def _compile_level(
        self, jobs: Sequence[Job], interfaces: dict[str, Interface], files: dict[str, SchemaFile]
    ) -> dict[str, CompiledFile]:
        """Compile files that do not import each other, each where it was read if that process has time for it."""
        from specgen.compile_file import compile_files

        done: dict[str, CompiledFile] = {}
        holders: dict[str, _Process] = {path: one for one in self._processes for path in one.holds}
        by_holder: dict[_Process | None, list[Job]] = {}
        for job in jobs:
            by_holder.setdefault(holders.get(job.path), []).append(job)

        def ask(process: _Process, chunk: Sequence[Job]) -> None:
            needed = {path: interfaces[path] for job in chunk for path in job.imports if path in interfaces}
            answer: dict[str, CompiledFile] = process.ask("compile", chunk, needed)
            done.update(answer)

        def compile_here(chunk: Sequence[Job]) -> None:
            done.update(compile_files(chunk, dict(interfaces), files))

        chunks = {holder: _in_chunks(held, _CHUNK) for holder, held in by_holder.items()}
        self._share(chunks, ask, compile_here, started=False)
        return done

    def _start(self, count: int) -> None:
        """Start what it takes for so many files; meanwhile this process can go on."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = min(cores, _MOST) - 1 if count >= MANY and sys.executable else 0
        for _ in range(wanted - len(self._processes)):
            with suppress(OSError):
                self._processes.append(_Process())

    def _share(
        self,
        chunks: Mapping[_Process | None, list[T]],
        ask: Callable[[_Process, T], None],
        here: Callable[[T], None],
        *,
        started: bool,
    ) -> None:
        """Hand out chunks to the processes and to this one until all are done.

        Args:
            chunks: by the process that is quickest at them; None is this one.
            ask: lets a process do one.
            here: does one in this process.
            started: whether only processes get any that have started already.
        """
        left: _Chunks[T] = _Chunks(chunks)
        failed: list[T] = []

        def serve(process: _Process) -> None:
            if started:
                process.started.wait()
            while (chunk := left.take(process)) is not None:
                try:
                    ask(process, chunk)
                except Exception:
                    # A process that is gone, or has met a fault of specgen's.
                    failed.append(chunk)
                    return
                finally:
                    left.finish()

        for process in self._processes:
            threading.Thread(target=serve, args=(process,), daemon=True).start()
        while (chunk := left.take(None)) is not None:
            here(chunk)
            left.finish()
        left.wait()
        for chunk in failed:
            here(chunk)


class _Chunks(Generic[T]):
    """Work that several threads take: each what it is quickest at, then that of the others."""

    def __init__(self, chunks: Mapping[_Process | None, list[T]]) -> None:
        self._left = {holder: list(reversed(held)) for holder, held in chunks.items()}
        self._running = 0
        self._changed = threading.Condition()

    def take(self, process: _Process | None) -> T | None:
        """The next chunk for a process; None when none is left."""
        with self._changed:
            own = self._left.get(process) or max(self._left.values(), key=len, default=[])
            self._running += bool(own)
            return own.pop() if own else None

    def finish(self) -> None:
        """Note that a chunk that was taken is done, or has failed."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all that were taken are done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)


class _Process:
    """A process that does what it is asked.

    Attributes:
        holds: the files whose declarations it has read.
        started: set when it is there, or will never be.
    """

    def __init__(self) -> None:
        code = f"import sys; sys.path[:] = {sys.path!r}; from specgen.project.workers import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.holds: set[str] = set()
        self.started = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        """Wait for its first word."""
        assert self._process.stdout is not None
        with suppress(Exception):
            _receive(self._process.stdout)
        self.started.set()

    def ask(self, *request: object) -> Any:
        """What it answers.

        Raises:
            EOFError: or another exception, where it is gone.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.started.wait()
        _send(self._process.stdin, request)
        return _receive(self._process.stdout)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.started.wait()
        self._process.communicate()


def _in_chunks(items: Sequence[T], sizes: tuple[int, int]) -> list[Sequence[T]]:
    """The items in chunks that become smaller towards the end, so that all processes end at about the same time."""
    chunks = []
    while items:
        size = min(max(len(items) // 4, sizes[0]), sizes[1])
        chunks.append(items[:size])
        items = items[size:]
    return chunks


def _levels(jobs: Sequence[Job]) -> list[list[Job]]:
    """The files, each in a level behind those of the files that it imports."""
    level: dict[str, int] = {}
    levels: list[list[Job]] = []
    for job in jobs:
        level[job.path] = at = max((level[path] + 1 for path in job.imports if path in level), default=0)
        levels += [[] for _ in range(at + 1 - len(levels))]
        levels[at].append(job)
    return levels


def serve() -> None:
    """Do what the other process asks for, until it ends. Nobody else can: the pipes have no name."""
    gc.disable()  # the process is short-lived, and what it makes has few cycles
    from specgen.compile_file import compile_files, read_files

    files: dict[str, SchemaFile] = {}
    answer: object = None
    with suppress(EOFError):
        while True:
            _send(sys.stdout.buffer, answer)
            what, *given = _receive(sys.stdin.buffer)
            if what == "read":
                (sources,) = given
                outlines: dict[str, Outline] = {}
                read_files(sources, files, outlines)
                answer = outlines
            else:
                jobs, interfaces = given
                answer = compile_files(jobs, interfaces, files)


def _send(stream: IO[bytes], value: object) -> None:
    raw = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(len(raw).to_bytes(8, "little") + raw)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(head, "little")))
