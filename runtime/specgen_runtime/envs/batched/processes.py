"""`ProcessPool`: a process for each environment."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import multiprocessing.forkserver
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

from specgen_runtime.envs.batched.messages import Failure, dumps, first_failure, loads
from specgen_runtime.envs.batched.pool import RemotePool
from specgen_runtime.envs.batched.worker import ANSWER, FAILED, MESSAGE, run_worker

__all__ = ["ProcessPool", "preload", "start", "start_method"]

_LAST = "specgen_runtime.envs.batched.hears_interrupts"
_PRELOADED = ("__main__", "specgen_runtime.envs.batched.worker", _LAST)


def start_method(name: str | None) -> str:
    """How processes are started.

    Args:
        name: `"forkserver"`, `"spawn"` or `"fork"`. None is the first of them that there is: a server without threads
            imports torch once, and its copies are the workers. `"spawn"` imports torch in every worker. `"fork"` copies
            this process, which is only safe while none of its threads holds a lock.

    Raises:
        ValueError: there is no such way here.
    """
    known = mp.get_all_start_methods()
    if name is None:
        return next(each for each in ("forkserver", "spawn") if each in known)
    if name not in known:
        raise ValueError(f"mp_start_method must be one of {', '.join(known)}, found {name!r}")
    return name


class ProcessPool(RemotePool):
    """Environments in processes of their own, spoken to through pipes.

    All processes are closed when this object is no longer referred to, when the interpreter ends, when one of them dies
    and when a wait for them is interrupted. They end by themselves when this process dies.

    Args:
        functions: pickled by `dumps_function`, one for each process.
        method: see `start_method`.
        daemon: whether the processes are daemonic: those can't start processes themselves.
        threads: how many threads torch may use in each; None leaves torch's default.
        timeout: how many seconds the processes have to end at the end of the interpreter.

    Attributes:
        descriptions: of the environments, in their order.

    Raises:
        RuntimeError: a process died before its environment was made.
        Exception: what an environment's function raised.
    """

    def __init__(
        self, functions: Sequence[bytes], *, method: str, daemon: bool, threads: int | None, timeout: float
    ) -> None:
        super().__init__()
        self.count = len(functions)
        self._processes: list[BaseProcess] = []
        self._commands: list[connection.Connection] = []
        self._answers: list[connection.Connection] = []
        self._finalize = Finalize(
            self, _end, (self._processes, self._commands, self._answers, timeout), exitpriority=10
        )
        try:
            preload(method)
            context: Any = mp.get_context(method)
            for place, function in enumerate(functions):
                self._start(context, place, function, daemon, threads, forked=method == "fork")
            self._writers = [end.fileno() for end in self._commands]
            self._readers = [end.fileno() for end in self._answers]
            self.descriptions = self.collect(range(self.count))
        except BaseException:
            self.kill()
            raise

    def _start(
        self, context: Any, place: int, function: bytes, daemon: bool, threads: int | None, *, forked: bool
    ) -> None:
        theirs, ours = context.Pipe(duplex=False)
        our_answers, their_answers = context.Pipe(duplex=False)
        self._commands.append(ours)
        self._answers.append(our_answers)
        inherited = (*self._commands, *self._answers) if forked else ()
        try:
            process = context.Process(
                target=run_worker,
                args=(place, function, theirs, their_answers, inherited, threads),
                daemon=daemon,
                name=f"specgen-env-{place}",
            )
            start(process)
            self._processes.append(process)
        finally:
            # Only the worker has these now: when it dies, the pipes end.
            theirs.close()
            their_answers.close()

    @property
    def pids(self) -> list[int | None]:
        """The processes' ids."""
        return [process.pid for process in self._processes]

    # speaking

    def send(self, place: int, command: str, argument: Any) -> None:
        """Give a command to one environment."""
        data = dumps((command, argument))
        self.write_command(place, MESSAGE, data)

    def write_command(self, place: int, command: bytes, data: bytes | None = None) -> None:
        """Write a command, and what belongs to it.

        Raises:
            RuntimeError: the process died.
        """
        try:
            os.write(self._writers[place], command)
            if data is not None:
                self._commands[place].send_bytes(data)
        except BrokenPipeError:
            raise self._lost(place) from None
        except BaseException:
            self.kill()  # a command may have been written in part
            raise

    def read_answers(self, places: Sequence[int]) -> list[tuple[bytes, Any]]:
        """Wait for the answers of some environments: one byte each, and what belongs to it.

        Raises:
            RuntimeError: a process died.
            Exception: what an environment raised; all have answered.
        """
        found: list[tuple[bytes, Any]] = []
        failures: list[tuple[int, Failure]] = []
        read, readers = os.read, self._readers
        try:
            for place in places:
                answer = read(readers[place], 1)
                data = None
                if answer in (ANSWER, FAILED):
                    data = loads(self._answers[place].recv_bytes())
                    if answer == FAILED:
                        failures.append((place, data))
                elif not answer:
                    raise EOFError
                found.append((answer, data))
        except (EOFError, ConnectionResetError):
            raise self._lost(place) from None
        except BaseException:
            self.kill()  # answers that nobody waits for would be taken for those of the next command
            raise
        if failures:
            first = failures[0][0]
            process = self._processes[first].pid
            raise first_failure(failures, f"environment {first} of {self.count}, process {process}")
        return found

    def collect(self, places: Sequence[int]) -> list[Any]:
        """Wait for the answers of some environments that were given a command."""
        return [data for _, data in self.read_answers(places)]

    def _lost(self, place: int) -> RuntimeError:
        """The error that tells of a process that died; closes all others."""
        process = self._processes[place]
        process.join(1.0)
        code, pid = process.exitcode, process.pid
        self.kill()
        hint = ""
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"was killed by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                hint = " (somebody killed it, or the system ran out of memory)"
        elif not hasattr(self, "descriptions"):
            hint = (
                ". A script that makes a ParallelEnv needs `if __name__ == '__main__':` around what it runs, since"
                " workers import it"
            )
        if code is None or code >= 0:
            how = f"ended with exit code {code}"
        return RuntimeError(
            f"environment {place} of {self.count}: its process {pid} {how}{hint}; all are closed now"
        )

    # ending

    def close(self, timeout: float) -> None:
        """Close the environments; processes that need longer are killed."""
        self.closed = True
        self._finalize.cancel()
        _end(self._processes, self._commands, self._answers, timeout)

    def kill(self) -> None:
        """End all processes at once."""
        self.close(0.0)


def preload(method: str) -> None:
    """Let the fork server import torch before it makes its first copy, unless somebody has told it what to import.

    It comes up with Ctrl-C held back, which the last of the modules forgets: it has no traceback to print.
    """
    if method == "forkserver":
        server: Any = multiprocessing.forkserver._forkserver
        if getattr(server, "_forkserver_pid", None) is None and server._preload_modules == ["__main__"]:
            mp.set_forkserver_preload(list(_PRELOADED))
            resource_tracker.ensure_running()  # which would let Ctrl-C through behind it
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                server.ensure_running()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(process: BaseProcess) -> None:
    """Start a process.

    Ctrl-C in a terminal is for all of its processes, and ends a fork server that is just coming up: a new one is asked then,
    since it is this process that says what Ctrl-C means.
    """
    for patience in _PATIENCE:
        try:
            process.start()
        except (EOFError, ConnectionError):
            time.sleep(patience)
        else:
            return
    process.start()


_PATIENCE = (0.1, 0.5, 1.0)
"""How many seconds a fork server that has ended is waited for, time after time."""


def _end(
    processes: list[BaseProcess],
    commands: list[connection.Connection],
    answers: list[connection.Connection],
    timeout: float,
) -> None:
    """End processes: by asking, then by SIGTERM, then by SIGKILL."""
    if timeout > 0:
        data = dumps(("close", None))
        for end in commands:
            with contextlib.suppress(OSError):
                os.write(end.fileno(), MESSAGE)
                end.send_bytes(data)
        _join(processes, timeout)
    for end in (*commands, *answers):
        end.close()
    for stop, patience in ((BaseProcess.terminate, 2.0 if timeout > 0 else 0.2), (BaseProcess.kill, 5.0)):
        late = [process for process in processes if process.is_alive()]
        for process in late:
            stop(process)
        _join(late, patience)
    for process in processes:
        if not process.is_alive():
            process.close()
    processes.clear()
    commands.clear()
    answers.clear()


def _join(processes: Sequence[BaseProcess], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
