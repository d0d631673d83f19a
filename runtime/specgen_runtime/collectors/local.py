"""`MultiSyncCollector` and `MultiAsyncCollector`: collectors in processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from specgen_runtime.collectors.multi import EnvMakers, MultiCollector
from specgen_runtime.collectors.processes import ProcessWorker, wait_for_processes
from specgen_runtime.collectors.worker import Worker
from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.processes import start_method

__all__ = ["MultiAsyncCollector", "MultiSyncCollector"]


class ProcessCollector(MultiCollector[D]):
    """Collects in processes.

    Args:
        create_env_fn: see `MultiCollector`.
        policy: likewise.
        num_sub_threads: how many threads torch has in a worker; None leaves its default.
        mp_start_method: how processes start, as for `ParallelEnv`.
        **keywords: of `MultiCollector`.
    """

    def __init__(
        self,
        create_env_fn: EnvMakers[D],
        policy: Callable[..., Any] | None = None,
        *,
        num_sub_threads: int | None = 1,
        mp_start_method: str | None = None,
        **keywords: Any,
    ) -> None:
        self._method, self._threads = start_method(mp_start_method), num_sub_threads
        super().__init__(create_env_fn, policy, **keywords)

    def _start(self, place: int, seed: int) -> Worker:
        return ProcessWorker(place, self._pickled[place], seed, self._method, self._threads)

    def _wait(self, workers: Sequence[Worker]) -> list[Worker]:
        return wait_for_processes(workers)

    @property
    def worker_pids(self) -> list[int | None]:
        """The ids of the processes."""
        return [worker.process.pid for worker in self._workers if isinstance(worker, ProcessWorker)]


class MultiSyncCollector(ProcessCollector[D]):
    """Collects in processes; each batch has the rows of all of them, collected with the same weights.

    With the same seed (`set_seed`, or torch's when it is made) it gives the same batches. `frames_per_batch` is of all
    workers together. For arguments see `MultiCollector`, `mp_start_method` and `num_sub_threads` as for `ParallelEnv`.

    Example:
        >>> collector = MultiSyncCollector([CartPole] * 2, policy, frames_per_batch=400, total_frames=2_000)
        >>> next(iter(collector)).shape
        torch.Size([2, 200])
    """

    sync = True


class MultiAsyncCollector(ProcessCollector[D]):
    """Collects in processes; each batch is of one of them, the first that is ready, while the others go on.

    Which one that is depends on their speed, so that batches are not reproducible. Weights are those that were there when
    the worker began its batch: the next one has begun before this one is given, unless `update_at_each_batch` asks for new
    weights first. `frames_per_batch` is of one worker. For arguments see `MultiCollector`.
    """

    sync = False
