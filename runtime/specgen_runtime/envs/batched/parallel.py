"""`ParallelEnv`: several environments as one, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch

from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.arguments import EnvFunction
from specgen_runtime.envs.batched.buffers import BufferLayout
from specgen_runtime.envs.batched.description import describe_all, make_samples
from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.batched.messages import dumps_function
from specgen_runtime.envs.batched.pool import Pool
from specgen_runtime.envs.batched.processes import ProcessPool, start_method
from specgen_runtime.envs.batched.serial import SerialEnv
from specgen_runtime.envs.batched.shared_memory import SharedMemoryPath
from specgen_runtime.envs.batched.views import IndexedBatch
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["ParallelEnv"]


class ParallelEnv(IndexedBatch[D]):
    """Several environments as one, stepped at the same time in processes of their own.

    Entries of fixed shapes go through shared memory; others (texts, entries whose sizes vary, environments whose data
    differ) are pickled and go through pipes. No gradient flows through it. The environments see the entries of their
    specs; what else a policy writes stays on this side. See `BatchedEnv` for what all batches do.

    It is for one thread at a time: a second one that speaks to the environments meanwhile gets a RuntimeError.

    What an environment raises is raised here, with its type, and with its traceback in a note; the environments can be
    used further. If a process dies, or a wait is interrupted, all are closed. Processes end with the process that
    started them, however that ends.

    Args:
        num_workers: how many.
        create_env_fn: makes an environment, or one function for each. It is sent to the processes; with cloudpickle
            installed it may be a lambda.
        create_env_kwargs: keyword arguments of the functions: a dict for all (each gets a copy), or one for each.
        pin_memory: not supported.
        share_individual_td: give lazy stacks of the environments' tensordicts. None: only where their data differ in
            keys or sizes.
        shared_memory: exchange data through shared memory. False: through files (`memmap`), or pipes.
        memmap: exchange data through a file in the folder for temporary files; needs `shared_memory=False`.
        policy_proof: not supported.
        device: of the data. None: that of the environments.
        allow_step_when_done: not supported.
        num_threads: how many threads torch uses in this process while the environments are there. None: as before.
        num_sub_threads: how many threads torch uses in each process.
        serial_for_single: give a `SerialEnv` if there is just one environment.
        non_blocking: do not wait for copies between devices; data on the CPU are always complete.
        mp_start_method: `"forkserver"` (None, where there is it), `"spawn"` or `"fork"`.
        use_buffers: whether shared memory is used for what fits. None: yes.
        metadata_from_workers: ask the processes for the specs, rather than an environment made here for that; they
            start at once then. With `use_buffers` True, too.
        consolidate: accepted; what goes through pipes is one message in any case.
        daemon: make the processes daemonic: they can't start processes themselves then.
        shutdown_timeout: how many seconds environments have to close, before their processes are terminated.
        auto_wrap_envs: accepted; functions need no wrapping.

    Raises:
        TypeError: the count is no integer; an environment is given, or something else, where a function is wanted; a
            function can't be sent to another process, or makes no environment.
        ValueError: the count is less than 1; something that is not supported is asked for; the environments have
            different batch sizes, or devices while `device` is None; there is no such start method.
        RuntimeError: there are more or fewer functions or dicts than environments; both `shared_memory` and `memmap`.
        OSError: at the start, no room for the data in shared memory (or in the file).

    Example:
        >>> env = ParallelEnv(4, lambda: GymEnv("CartPole-v1"))
        >>> env.rollout(10, break_when_any_done=False).batch_size
        torch.Size([4, 10])
        >>> env.close()
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A `SerialEnv` if that is asked for, and there is one environment."""
        if kwargs.get("serial_for_single") and (args[0] if args else kwargs.get("num_workers")) == 1:
            for name in (
                "mp_start_method",
                "metadata_from_workers",
                "daemon",
                "shutdown_timeout",
                "auto_wrap_envs",
            ):
                kwargs.pop(name, None)
            single: Any = SerialEnv(*args, **kwargs)
            return single  # type: ignore[no-any-return]  # not an instance of cls: Python calls no `__init__`
        return super().__new__(cls)

    def __init__(
        self,
        num_workers: int,
        create_env_fn: EnvFunction[D] | Sequence[EnvFunction[D]],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        pin_memory: bool = False,
        share_individual_td: bool | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        policy_proof: Callable[..., Any] | None = None,
        device: DEVICE_TYPING | None = None,
        allow_step_when_done: bool = False,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        non_blocking: bool = False,
        mp_start_method: str | None = None,
        use_buffers: bool | None = None,
        metadata_from_workers: bool = False,
        consolidate: bool = True,
        daemon: bool = False,
        shutdown_timeout: float = 10.0,
        auto_wrap_envs: bool = True,
    ) -> None:
        del serial_for_single, consolidate, auto_wrap_envs
        if shared_memory and memmap:
            raise RuntimeError(
                "shared_memory and memmap exclude each other; pass shared_memory=False with memmap=True"
            )
        super().__init__(
            num_workers,
            create_env_fn,
            create_env_kwargs=create_env_kwargs,
            pin_memory=pin_memory,
            share_individual_td=share_individual_td,
            policy_proof=policy_proof,
            device=device,
            allow_step_when_done=allow_step_when_done,
            non_blocking=non_blocking,
        )
        self._shared_memory: SharedMemoryPath | None = None
        self._use_buffers = use_buffers is not False and (shared_memory or memmap)
        self._memmap = memmap
        self._method = start_method(mp_start_method)
        self._threads, self._sub_threads = num_threads, num_sub_threads
        self._threads_before: int | None = None
        self._daemon = daemon
        self._shutdown_timeout = float(shutdown_timeout)
        self._from_workers = metadata_from_workers
        self._pickled: list[bytes] = []
        self._pickle()
        if metadata_from_workers:
            self.start()
        else:
            self._find_specs()

    def configure_parallel(
        self,
        *,
        use_buffers: bool | None = None,
        shared_memory: bool | None = None,
        memmap: bool | None = None,
        mp_start_method: str | None = None,
        num_threads: int | None = None,
        num_sub_threads: int | None = None,
        non_blocking: bool | None = None,
        daemon: bool | None = None,
        shutdown_timeout: float | None = None,
    ) -> Self:
        """Change how the processes run, before they start; see the constructor. None changes nothing.

        Returns:
            The environment.

        Raises:
            RuntimeError: it has started; or both `shared_memory` and `memmap`.
            ValueError: there is no such start method.
        """
        if not self.is_closed:
            raise RuntimeError(
                "configure_parallel changes how processes start, and these have; close() first"
            )
        if shared_memory and memmap:
            raise RuntimeError("shared_memory and memmap exclude each other")
        if mp_start_method is not None:
            self._method = start_method(mp_start_method)
        if memmap is not None:
            self._memmap = memmap
        if use_buffers is not None:
            self._use_buffers = use_buffers
        elif shared_memory is not None:
            self._use_buffers = shared_memory or self._memmap
        self._threads = self._threads if num_threads is None else num_threads
        self._sub_threads = self._sub_threads if num_sub_threads is None else num_sub_threads
        self.non_blocking = self.non_blocking if non_blocking is None else non_blocking
        self._daemon = self._daemon if daemon is None else daemon
        self._shutdown_timeout = (
            self._shutdown_timeout if shutdown_timeout is None else float(shutdown_timeout)
        )
        return self

    # starting and closing

    def _pickle(self) -> None:
        # Before an environment is made to look at it: whatever a function holds on to is sent as it is now.
        pairs = zip(self.create_env_fn, self.create_env_kwargs, strict=True)
        self._pickled = [dumps_function(function, kwargs, i) for i, (function, kwargs) in enumerate(pairs)]

    def _find_specs(self) -> None:
        made = make_samples(self.create_env_fn, self.create_env_kwargs)
        try:
            self._take_specs(describe_all(self.create_env_fn, self.create_env_kwargs, made))
        finally:
            for env in made.values():
                env.close(raise_if_closed=False)

    def _open(self) -> Pool:
        if self._stale:
            self._pickle()
            if not self._from_workers:
                self._find_specs()
        pool = ProcessPool(
            self._pickled,
            method=self._method,
            daemon=self._daemon,
            threads=self._sub_threads,
            timeout=self._shutdown_timeout,
        )
        try:
            if self._from_workers and (self._stale or "_descriptions" not in self.__dict__):
                self._take_specs(pool.descriptions)
            self._check_workers(pool)
            self._stale = False
            buffers = (
                None if self._ragged or not self._use_buffers else BufferLayout.of(self._descriptions[0])
            )
            if buffers is not None and buffers.complete and not self.share_individual_td:
                self._shared_memory = SharedMemoryPath(pool, buffers, self, on_disk=self._memmap)
        except BaseException:
            pool.kill()
            raise
        if self._threads is not None:
            self._threads_before = torch.get_num_threads()
            torch.set_num_threads(self._threads)
        return pool

    def _check_workers(self, pool: ProcessPool) -> None:
        """Refuse processes whose environments are not those whose specs are known."""
        for place, (found, known) in enumerate(zip(pool.descriptions, self._descriptions, strict=True)):
            if found.layout() != known.layout():
                theirs, ours = dict.fromkeys(found.layout()[1]), dict.fromkeys(known.layout()[1])
                odd = [entry[1] for entry in (*theirs, *ours) if not (entry in theirs and entry in ours)]
                raise RuntimeError(
                    f"environment {place} ({found.name}) has other specs in its process than in this one:"
                    f" {sorted(set(map(str, odd))) or [found.batch_size, known.batch_size]}"
                )

    def _forget_pool(self) -> None:
        super()._forget_pool()
        self._shared_memory = None
        if self._threads_before is not None:
            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    @property
    def worker_pids(self) -> list[int | None]:
        """The ids of the processes; empty where there are none."""
        pool = self._pool
        return pool.pids if isinstance(pool, ProcessPool) else []

    def _fast_path(self) -> BatchFastPath | None:
        return self._shared_memory

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_shared_memory": None, "_threads_before": None}
