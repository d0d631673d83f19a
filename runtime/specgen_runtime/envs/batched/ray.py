"""`RayEnv`: several environments as one, in actors of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.arguments import EnvFunction, checked_env
from specgen_runtime.envs.batched.description import Description
from specgen_runtime.envs.batched.messages import Failure, dumps, dumps_function, first_failure, loads
from specgen_runtime.envs.batched.pool import Pool, RemotePool
from specgen_runtime.envs.batched.views import IndexedBatch
from specgen_runtime.envs.batched.worker_env import WorkerEnv
from specgen_runtime.extras import import_extra
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["RayEnv"]


class RayEnv(IndexedBatch[D]):
    """Several environments as one, each in an actor of a Ray cluster, on as many machines as it has.

    Its actors start at construction, with `ray.init()` if nobody has called it, and tell the specs. Data are pickled, so
    that a step takes about a millisecond: for environments that are slow, or too many for one machine. What an
    environment raises is raised here, with its type; if an actor dies, all are closed. Otherwise as `ParallelEnv`.

    Args:
        num_workers: how many.
        create_env_fn: makes an environment, or one function for each.
        create_env_kwargs: keyword arguments of the functions: a dict for all (each gets a copy), or one for each.
        share_individual_td: give lazy stacks of the environments' tensordicts. None: only where their data differ in
            keys or sizes.
        device: of the data. None: that of the environments.
        non_blocking: do not wait for copies between devices; data on the CPU are always complete.
        ray_options: what each actor needs, as in `ray.remote(**options)`: `num_cpus`, `num_gpus`, `resources`.
        shutdown_timeout: how many seconds environments have to close, before their actors are killed.

    Raises:
        ImportError: Ray is not installed.
        TypeError, ValueError, RuntimeError: as `ParallelEnv`.
        Exception: what a function raised.
    """

    def __init__(
        self,
        num_workers: int,
        create_env_fn: EnvFunction[D] | Sequence[EnvFunction[D]],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        share_individual_td: bool | None = None,
        device: DEVICE_TYPING | None = None,
        non_blocking: bool = False,
        ray_options: Mapping[str, Any] | None = None,
        shutdown_timeout: float = 10.0,
    ) -> None:
        _import_ray()
        super().__init__(
            num_workers,
            create_env_fn,
            create_env_kwargs=create_env_kwargs,
            pin_memory=False,
            share_individual_td=share_individual_td,
            policy_proof=None,
            device=device,
            allow_step_when_done=False,
            non_blocking=non_blocking,
        )
        self._ray_options = dict(ray_options or {})
        self._shutdown_timeout = float(shutdown_timeout)
        self.start()

    def _open(self) -> Pool:
        pairs = zip(self.create_env_fn, self.create_env_kwargs, strict=True)
        functions = [dumps_function(function, kwargs, i) for i, (function, kwargs) in enumerate(pairs)]
        pool = RayPool(functions, self._ray_options)
        try:
            if self._stale or "_descriptions" not in self.__dict__:
                self._take_specs(pool.descriptions)
            self._stale = False
        except BaseException:
            pool.close(0.0)
            raise
        return pool


class RayPool(RemotePool):
    """Environments in Ray actors.

    Args:
        functions: pickled by `dumps_function`, one for each actor.
        options: of each actor.

    Attributes:
        descriptions: of the environments, in their order.
    """

    def __init__(self, functions: Sequence[bytes], options: Mapping[str, Any]) -> None:
        super().__init__()
        self._ray = _import_ray()
        self.count = len(functions)
        self._answers: dict[int, Any] = {}
        actor = self._ray.remote(**options)(_Actor) if options else self._ray.remote(_Actor)
        self._actors = [actor.remote(place, function) for place, function in enumerate(functions)]
        try:
            self.descriptions: list[Description] = list(
                self.run("describe", dict.fromkeys(range(self.count))).values()
            )
        except BaseException:
            self.close(0.0)
            raise

    def send(self, place: int, command: str, argument: Any) -> None:
        """Give a command to one environment."""
        try:
            if not self._ray.is_initialized():  # else Ray would begin anew, without them
                raise RuntimeError("Ray was shut down")
            self._answers[place] = self._actors[place].do.remote(dumps((command, argument)))
        except Exception as error:  # an actor of another cluster is no error of Ray's own
            self.close(0.0)
            raise self._gone(place) from error

    def collect(self, places: Sequence[int]) -> list[Any]:
        """Wait for the answers of some environments that were given a command."""
        found: list[Any] = []
        failures: list[tuple[int, Failure]] = []
        try:
            for place in places:
                answer = loads(self._ray.get(self._answers.pop(place)))
                if isinstance(answer, Failure):
                    failures.append((place, answer))
                found.append(answer)
        except self._ray.exceptions.RayError as error:
            self.close(0.0)
            raise self._gone(place) from error
        except BaseException:
            self.close(0.0)  # answers that nobody waits for would be taken for those of the next command
            raise
        if failures:
            raise first_failure(failures, f"environment {failures[0][0]} of {self.count}, a Ray actor")
        return found

    def _gone(self, place: int) -> RuntimeError:
        return RuntimeError(f"environment {place} of {self.count}: its actor is gone; all are closed now")

    def close(self, timeout: float) -> None:
        """Close the environments, and end their actors."""
        self.closed = True
        there = self._actors if self._ray.is_initialized() else []
        if timeout > 0:
            with contextlib.suppress(Exception):  # as in `send`
                asked = [actor.do.remote(dumps(("close", None))) for actor in there]
                self._ray.wait(asked, num_returns=len(asked), timeout=timeout)
        for actor in there:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)
        self._actors.clear()

    def __del__(self) -> None:
        if not self.closed and getattr(self, "_actors", None) and self._ray.is_initialized():
            self.close(0.0)


class _Actor:
    """What runs in an actor: a `WorkerEnv`."""

    def __init__(self, place: int, function: bytes) -> None:
        self.place, self.function = place, function
        self.worker_env: WorkerEnv | None = None

    def do(self, data: bytes) -> bytes:
        """Carry out a pickled command; the pickled answer, or `Failure`."""
        try:
            if self.worker_env is None:
                create, kwargs = loads(self.function)
                self.worker_env = WorkerEnv(checked_env(create(**kwargs), self.place))
            command, argument = loads(data)
            return dumps(self.worker_env.do(command, argument))
        except Exception as error:
            return dumps(Failure(error))


def _import_ray() -> Any:
    return import_extra("ray", "RayEnv needs Ray", "ray")
