"""Workers of collectors in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import signal
import threading
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import Any

import torch

from specgen_runtime.collectors.worker import HostedCollector, Worker, WorkerLostError
from specgen_runtime.envs.batched.messages import Failure, dumps, loads
from specgen_runtime.envs.batched.processes import preload, start
from specgen_runtime.envs.batched.worker import leave_with_parent

__all__ = ["ProcessWorker", "wait_for_processes"]


class ProcessWorker(Worker):
    """A collector in a process of its own, which ends with this one.

    Args:
        place: which of the workers it is.
        data: of `pickled_worker`.
        seed: of the worker.
        method: how the process starts; see `start_method`.
        threads: how many threads torch has there; None leaves it.
    """

    def __init__(self, place: int, data: bytes, seed: int, method: str, threads: int | None) -> None:
        self.place = place
        preload(method)
        context: Any = mp.get_context(method)
        self.pipe, theirs = context.Pipe()
        inherited = (self.pipe,) if method == "fork" else ()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(data, seed, theirs, inherited, threads), name=f"specgen-collector-{place}"
        )
        start(self.process)
        theirs.close()  # only the worker has it now: when it dies, the pipe ends
        self._finalize = Finalize(self, _end, (self.process, self.pipe, 0.0), exitpriority=10)
        self.busy = True  # it says when it has begun

    def send(self, command: str, argument: Any = None) -> None:
        """Give it a command; see `Worker`."""
        try:
            self.pipe.send_bytes(dumps((command, argument)))
        except (BrokenPipeError, ConnectionResetError, OSError):
            raise self._lost() from None
        self.busy = True

    def receive(self) -> Any:
        """Wait for the answer; see `Worker`."""
        try:
            answer = loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionResetError, OSError):
            raise self._lost() from None
        self.busy = False
        if isinstance(answer, Failure):
            raise answer.rebuild(f"worker {self.place}, process {self.process.pid}")
        return answer

    def _lost(self) -> WorkerLostError:
        self.process.join(1.0)
        code, pid = self.process.exitcode, self.process.pid
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"was killed by {signal.Signals(-code).name}"
        return WorkerLostError(f"worker {self.place}: its process {pid} {how}")

    def close(self, timeout: float) -> None:
        """End the process; see `Worker`."""
        self._finalize.cancel()
        _end(self.process, self.pipe, 0.0 if self.busy else timeout)


def wait_for_processes(workers: Sequence[Worker], timeout: float | None = None) -> list[Worker]:
    """Those of some workers that have answered, or ended; waits for the first."""
    pipes = {worker.pipe: worker for worker in workers if isinstance(worker, ProcessWorker)}
    ready: Any = connection.wait(list(pipes), timeout)
    found = {id(pipes[pipe]) for pipe in ready}
    return [worker for worker in workers if id(worker) in found]


def _serve(
    data: bytes,
    seed: int,
    pipe: connection.Connection,
    inherited: Sequence[connection.Connection],
    threads: int | None,
) -> None:
    """What runs in the process: commands until the pipe ends."""
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns the collector
    threading.Thread(target=leave_with_parent, daemon=True, name="watch-parent").start()
    if threads is not None:
        torch.set_num_threads(threads)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            hosted = HostedCollector(data, seed)
        except Exception as error:
            pipe.send_bytes(dumps(Failure(error)))
            return
        pipe.send_bytes(dumps(None))
        command = ""
        while command != "close":
            command, argument = loads(pipe.recv_bytes())
            try:
                answer = dumps(hosted.do(command, argument))
            except Exception as error:
                answer = dumps(Failure(error))
            pipe.send_bytes(answer)


def _end(process: BaseProcess, pipe: connection.Connection, timeout: float) -> None:
    """End a process: by asking, then by SIGTERM, then by SIGKILL; one that was ended stays so."""
    if pipe.closed:
        return
    if timeout > 0:
        with contextlib.suppress(OSError):
            pipe.send_bytes(dumps(("close", None)))
        process.join(timeout)
    pipe.close()
    for stop, patience in ((process.terminate, 0.5), (process.kill, 5.0)):
        if process.is_alive():
            stop()
            process.join(patience)
    if not process.is_alive():
        process.close()
