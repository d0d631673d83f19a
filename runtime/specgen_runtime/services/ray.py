"""`RayService`: an object in an actor of a Ray cluster, whose methods are called from here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from specgen_runtime.envs.batched.messages import Failure, dumps, loads
from specgen_runtime.extras import import_extra

__all__ = ["RayService"]

_NAMED: dict[str, Any] = {}
"""Actors with a name, which others may use: Ray ends an actor when the process that made it drops the last handle."""


class RayService:
    """An object in an actor of a Ray cluster; `call` runs one of its methods there and brings back the result.

    The actor starts at construction, with `ray.init()` if nobody has called it. Arguments and results are pickled,
    and tensors arrive on the CPU; gradients do not cross. What a method raises is raised here, with its type and
    the traceback of the actor as a note. A service with a name can itself be pickled: the copy uses the same actor.

    Args:
        create: makes the object; called once, in the actor.
        what: what it is, for messages.
        name: of the actor. If the cluster has an actor of that name, it is used, and `create` is not called.
        settings: what has to be the same in everyone who uses an actor of that name.
        num_cpus: that the actor occupies. None: 0, so that it starts on a cluster whose processors are all taken.
        num_gpus: that the actor occupies. None: 0.
        timeout: how many seconds the actor has to start, and a call to answer.

    Attributes:
        name: of the actor, or None.
        closed: whether it was closed or killed here.

    Raises:
        ImportError: Ray is not installed.
        TypeError: `create` can't be pickled.
        ValueError: the actor of that name has other settings.
        TimeoutError: the actor did not start in time.
        Exception: what `create` raised.
    """

    def __init__(
        self,
        create: Callable[[], object],
        *,
        what: str,
        name: str | None = None,
        settings: Mapping[str, str] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.name = name
        self._what = what
        self._timeout = timeout
        self.closed = False
        self._ray = ray = _import_ray(what)
        try:
            pickled = ray.cloudpickle.dumps(create)
        except Exception as error:
            raise TypeError(
                f"what makes the {what} can't be sent to an actor: {error}; give a factory that makes everything"
                " it needs when it is called"
            ) from error
        if not ray.is_initialized():
            ray.init()
        wanted = dict(settings or {})
        options: dict[str, Any] = {"num_cpus": num_cpus or 0, "num_gpus": num_gpus or 0}
        if name is not None:
            # One request: of two that ask for the same name at the same time, one finds the actor of the other.
            options |= {"name": name, "get_if_exists": True}
        own = uuid.uuid4().hex
        self._actor: Any = ray.remote(_Host).options(**options).remote(pickled, wanted, own)
        try:
            found, maker = self._get(self._actor.start.remote(), "start")
            differing = [key for key in sorted({*wanted, *found}) if wanted.get(key) != found.get(key)]
            if differing:
                told = "; ".join(f"{key} is {found.get(key)}, not {wanted.get(key)}" for key in differing)
                raise ValueError(f"the actor {name!r} is another {what}: {told}. Give this one another name")
        except BaseException:
            if name is None:
                self.kill()
            raise
        if name is not None and maker == own:
            _NAMED[name] = self._actor
        context = ray.get_runtime_context()
        self._address, self._namespace = context.gcs_address, context.namespace

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the object, and return what it returns.

        Raises:
            RuntimeError: the service is closed, or its actor is gone.
            TimeoutError: there was no answer in time.
            Exception: what the method raised.
        """
        if self.closed:
            raise RuntimeError(f"this {self._what} in a Ray actor is closed")
        request = self._actor.do.remote(dumps((method, args, kwargs)))
        return self._get(request, f"answer {method}")

    def close(self) -> None:
        """Use the actor no more: one without a name ends, one with a name stays while the process lives that made it."""
        if self.name is None:
            self.kill()
        self.closed = True
        self._actor = None

    def kill(self) -> None:
        """End the actor, for everyone who uses it."""
        if self._actor is not None and self._ray.is_initialized():
            self._ray.kill(self._actor)
            _NAMED.pop(self.name or "", None)
        self.closed = True
        self._actor = None

    def _get(self, request: Any, doing: str) -> Any:
        ray = self._ray
        try:
            answer = loads(ray.get(request, timeout=self._timeout))
        except ray.exceptions.GetTimeoutError:
            free = ray.available_resources()
            raise TimeoutError(
                f"the {self._what} in a Ray actor did not {doing} within {self._timeout:g} seconds; free in the"
                f" cluster: {free.get('CPU', 0):g} processors, {free.get('GPU', 0):g} GPUs"
            ) from None
        except ray.exceptions.RayActorError as error:
            raise RuntimeError(f"the actor of this {self._what} is gone: {error}") from error
        if isinstance(answer, Failure):
            raise answer.rebuild(f"the Ray actor of this {self._what}")
        return answer

    def __getstate__(self) -> dict[str, Any]:
        if self.name is None:
            raise TypeError(
                f"this {self._what} in a Ray actor has no name by which another process could find it"
            )
        return {name: value for name, value in self.__dict__.items() if name not in ("_ray", "_actor")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ray = ray = _import_ray(self._what)
        if not ray.is_initialized():
            ray.init(address=self._address, namespace=self._namespace)
        self._actor = None if self.closed else ray.get_actor(self.name, self._namespace)


class _Host:
    """What runs in an actor: an object, made when it is first needed."""

    def __init__(self, create: bytes, settings: dict[str, str], maker: str) -> None:
        self.create, self.settings, self.maker = create, settings, maker
        self.hosted: Any = None

    def start(self) -> bytes:
        """Make the object, if it is not there; pickled, the settings and who asked for it, or `Failure`."""
        try:
            if self.hosted is None:
                self.hosted = loads(self.create)()
            return dumps((self.settings, self.maker))
        except Exception as error:
            return dumps(Failure(error))

    def do(self, data: bytes) -> bytes:
        """Run a method of the object; the pickled result, or `Failure`."""
        try:
            method, args, kwargs = loads(data)
            return dumps(getattr(self.hosted, method)(*args, **kwargs))
        except Exception as error:
            return dumps(Failure(error))


def _import_ray(what: str) -> Any:
    return import_extra("ray", f"{what} in an actor needs Ray", "ray")
