"""`RayCollector`: collectors in actors of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from specgen_runtime.collectors.multi import EnvMakers, MultiCollector
from specgen_runtime.collectors.worker import HostedCollector, Worker, WorkerLostError
from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.messages import Failure, dumps, loads
from specgen_runtime.extras import import_extra

__all__ = ["RayCollector"]


class RayCollector(MultiCollector[D]):
    """Collects in actors of a Ray cluster.

    With ``sync=True`` each batch has the rows of all actors, as that of a `MultiSyncCollector`; otherwise it is of one of
    them, as that of a `MultiAsyncCollector`. An actor that is killed, or whose machine is gone, is replaced.

    Args:
        create_env_fn: makes an environment in an actor; or one function for each.
        policy: see `MultiCollector`.
        num_collectors: how many actors, where one function makes all environments.
        sync: whether a batch waits for all actors.
        ray_init_config: keywords of `ray.init`, which is called if nobody has.
        remote_configs: options of the actors, as `ray.remote` takes them (``num_cpus``, ``num_gpus``, ``memory``): a dict
            for all, or one for each.
        update_after_each_batch: send the weights of `policy` before each further batch is begun.
        max_weight_update_interval: after how many batches of an actor it gets new weights in any case; -1: never.
        **keywords: of `MultiCollector`.

    Raises:
        ImportError: Ray is not installed.
        ValueError: other numbers of actors, functions and options.
    """

    def __init__(
        self,
        create_env_fn: EnvMakers[D],
        policy: Callable[..., Any] | None = None,
        *,
        num_collectors: int | None = None,
        sync: bool = False,
        ray_init_config: Mapping[str, Any] | None = None,
        remote_configs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        **keywords: Any,
    ) -> None:
        self._ray = import_extra("ray", "RayCollector needs Ray", "ray")
        if not self._ray.is_initialized():
            self._ray.init(**(ray_init_config or {}))
        self.sync = bool(sync)
        self.max_weight_update_interval = max_weight_update_interval
        count = num_collectors or (1 if callable(create_env_fn) else len(create_env_fn))
        one = remote_configs is None or isinstance(remote_configs, Mapping)
        configs: Any = [remote_configs or {}] * count if one else remote_configs
        self._configs: list[Mapping[str, Any]] = list(configs)
        if len(self._configs) != count:
            raise ValueError(f"{count} actors, and remote_configs for {len(self._configs)}")
        self._since = [0] * count
        keywords |= {"num_workers": count, "update_at_each_batch": update_after_each_batch}
        super().__init__(create_env_fn, policy, **keywords)

    def _start(self, place: int, seed: int) -> Worker:
        return RayWorker(self._ray, place, self._pickled[place], seed, self._configs[place])

    def _wait(self, workers: Sequence[Worker]) -> list[Worker]:
        requests = {worker.request: worker for worker in workers if isinstance(worker, RayWorker)}
        ready, _ = self._ray.wait(list(requests), num_returns=1)
        return [requests[request] for request in ready]

    def _ask(self, place: int) -> None:
        known = self._workers[place].version
        if 0 < self.max_weight_update_interval <= self._since[place] and known == self.version:
            self.update_policy_weights_()
        self._since[place] = 1 if known != self.version else self._since[place] + 1
        super()._ask(place)


class RayWorker(Worker):
    """A collector in an actor.

    Args:
        ray: the module.
        place: which of the workers it is.
        data: of `pickled_worker`.
        seed: of the worker.
        options: of the actor.
    """

    def __init__(self, ray: Any, place: int, data: bytes, seed: int, options: Mapping[str, Any]) -> None:
        self._ray, self.place = ray, place
        host: Any = ray.remote(**options)(_Host) if options else ray.remote(_Host)
        self.actor = host.remote()
        self.request = self.actor.begin.remote(data, seed)
        self.busy = True  # it says when it has begun

    def send(self, command: str, argument: Any = None) -> None:
        """Give it a command; see `Worker`."""
        self.request = self.actor.do.remote(dumps((command, argument)))
        self.busy = True

    def receive(self) -> Any:
        """Wait for the answer; see `Worker`."""
        try:
            answer = loads(self._ray.get(self.request))
        except self._ray.exceptions.RayError as error:
            raise WorkerLostError(f"worker {self.place}: its Ray actor is gone: {error}") from error
        self.busy = False
        if isinstance(answer, Failure):
            raise answer.rebuild(f"worker {self.place}, a Ray actor")
        return answer

    def close(self, timeout: float) -> None:
        """End the actor; see `Worker`."""
        if not self._ray.is_initialized():
            return
        with contextlib.suppress(self._ray.exceptions.RayError):
            if timeout > 0 and not self.busy:
                self._ray.wait([self.actor.do.remote(dumps(("close", None)))], timeout=timeout)
        self._ray.kill(self.actor)


class _Host:
    """What runs in the actor."""

    def begin(self, data: bytes, seed: int) -> bytes:
        """Make the collector; pickled, None or `Failure`."""
        try:
            self.hosted = HostedCollector(data, seed)
            return dumps(None)
        except Exception as error:
            return dumps(Failure(error))

    def do(self, data: bytes) -> bytes:
        """Carry out a command; the pickled answer, or `Failure`."""
        try:
            return dumps(self.hosted.do(*loads(data)))
        except Exception as error:
            return dumps(Failure(error))
