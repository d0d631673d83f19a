"""`RayService`: an object in actors of a Ray cluster, whose methods are called from here."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, Unpack

from specgen_runtime.envs.batched.messages import Failure, dumps, loads
from specgen_runtime.extras import import_extra

__all__ = ["ActorOptions", "RayService", "actor_options"]

TIMEOUT = 120.0
"""How many seconds an actor has to start, and a call to answer, unless it is said."""

_NAMED: dict[str, Any] = {}
"""Actors with a name, which others may use: Ray ends an actor when the process that made it drops the last handle."""


class ActorOptions(TypedDict, total=False):
    """Keywords of what runs in Ray actors with ``use_ray_service=True``; see `RayService`."""

    actor_name: str | None
    """of the actors; if there are some of this name with equal arguments, they are used"""
    num_gpus: float | None
    """that each actor occupies; None for none"""
    num_cpus: float | None
    """that each actor occupies; None for none"""
    replicas: int
    """how many actors, which do the same, serve all who use the name"""
    lifetime: Literal["detached"] | None
    """``"detached"`` lets actors with a name live on when this process ends"""
    timeout: float | None
    """how many seconds an actor has to start, and to answer; None for 120"""


_DEFAULTS: ActorOptions = {
    "actor_name": None,
    "num_gpus": None,
    "num_cpus": None,
    "replicas": 1,
    "lifetime": None,
    "timeout": None,
}


def actor_options(use_ray_service: bool, **given: Unpack[ActorOptions]) -> ActorOptions:
    """Check the keywords of Ray actors, before there is one; those that are left out get their defaults.

    Args:
        use_ray_service: whether there will be an actor.
        given: the keywords.

    Raises:
        ValueError: one says something without `use_ray_service`, or something that can't be.
    """
    options: ActorOptions = {**_DEFAULTS, **given}
    said = [name for name, value in options.items() if value != _DEFAULTS.get(name)]
    if said and not use_ray_service:
        raise ValueError(f"{', '.join(said)}: only with use_ray_service=True")
    replicas, timeout, lifetime = options["replicas"], options["timeout"], options["lifetime"]
    for name, number in (("num_gpus", options["num_gpus"]), ("num_cpus", options["num_cpus"])):
        if number is not None and not number >= 0:
            raise ValueError(f"{name} is 0 or more, got {number}")
    if not isinstance(replicas, int) or replicas < 1:
        raise ValueError(f"replicas is a whole number from 1 on, got {replicas}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout is a number of seconds above 0, got {timeout}")
    if options["actor_name"] == "":
        raise ValueError("actor_name is empty: leave it out for an actor without a name")
    if lifetime not in (None, "detached"):
        raise ValueError(f"lifetime is None or 'detached', got {lifetime!r}")
    if lifetime is not None and options["actor_name"] is None:
        raise ValueError("lifetime='detached' needs actor_name: nobody could find the actor again")
    return options


class RayService:
    """An object in an actor of a Ray cluster; `call` runs one of its methods there and brings back the result.

    The actor starts at construction, with `ray.init()` if nobody has called it. Arguments and results are pickled,
    and tensors arrive on the CPU; gradients do not cross. What a method raises is raised here, with its type and
    the traceback of the actor as a note. A service with a name can itself be pickled: the copy uses the same actor.

    With `replicas` there are as many actors, each with an object of its own: `call` takes the one that has the fewest
    calls of this process to answer, in turn; `call_all` takes all.

    Args:
        create: makes the object; called once, in the actor.
        what: what it is, for messages.
        actor_name: of the actor. If the cluster has an actor of that name, it is used, and `create` is not called.
            Replicas have this name with ``.1``, ``.2`` and so on behind it.
        settings: what has to be the same in everyone who uses an actor of that name, such as its arguments as
            `described` tells them.
        num_gpus: that each actor occupies. None: 0.
        num_cpus: that each actor occupies. None: 0, so that it starts on a cluster whose processors are all taken.
        replicas: how many actors.
        lifetime: None for an actor that ends with the process that made it; ``"detached"`` for one with a name that
            stays until it is killed.
        timeout: how many seconds an actor has to start, and a call to answer. None: 120.

    Attributes:
        actor_name: of the actor, or None.
        closed: whether it was closed or killed here.

    Raises:
        ImportError: Ray is not installed.
        TypeError: `create` can't be pickled.
        ValueError: the actor of that name has other settings; or an argument can't be.
        TimeoutError: the actor did not start in time.
        RuntimeError: it ended while it started.
        Exception: what `create` raised.
    """

    def __init__(
        self,
        create: Callable[[], object],
        *,
        what: str,
        settings: Mapping[str, str] | None = None,
        **options: Unpack[ActorOptions],
    ) -> None:
        options = actor_options(True, **options)
        self.actor_name = options["actor_name"]
        self._timeout = options["timeout"] or TIMEOUT
        self._what = what
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
        replicas = options["replicas"]
        wanted = {**(settings or {}), "replicas": str(replicas)}
        needs: dict[str, Any] = {name: options[name] or 0 for name in ("num_cpus", "num_gpus")}
        own = uuid.uuid4().hex
        self._names = [self.actor_name and _name_of(self.actor_name, k) for k in range(replicas)]
        is_another = [name is not None and _is_there(ray, name) for name in self._names]
        self._actors: list[Any] = []
        for name in self._names:
            if name is not None:
                # One request: of two that ask for the same name at the same time, one finds the actor of the other.
                needs |= {"name": name, "get_if_exists": True, "lifetime": options["lifetime"]}
            self._actors.append(ray.remote(_Host).options(**needs).remote(pickled, wanted, own))
        self._use_in_turn()
        try:
            for place, actor in enumerate(self._actors):
                found, maker = self._get(actor.identity.remote(), "start")
                is_another[place] = maker != own
                differing = [key for key in sorted({*wanted, *found}) if wanted.get(key) != found.get(key)]
                if differing:
                    told = "; ".join(f"{key} is {found.get(key)}, not {wanted.get(key)}" for key in differing)
                    raise ValueError(
                        f"the actor {self._names[place]!r} is another {what}: {told}. Give this one another name"
                    )
            for request in [actor.start.remote() for actor in self._actors]:
                self._get(request, "start")
        except BaseException:
            for actor, found in zip(self._actors, is_another, strict=True):
                if not found:
                    ray.kill(actor)
            raise
        for name, actor, found in zip(self._names, self._actors, is_another, strict=True):
            if name is not None and not found:
                _NAMED[name] = actor
        context = ray.get_runtime_context()
        self._address, self._namespace = context.gcs_address, context.namespace

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the object, and return what it returns.

        Raises:
            RuntimeError: the service is closed, or its actor is gone.
            TimeoutError: there was no answer in time.
            Exception: what the method raised.
        """
        self._refuse_if_closed()
        data = dumps((method, args, kwargs))
        with self._choosing:
            self._turn += 1
            count = len(self._actors)
            place = min(range(count), key=lambda k: (self._unanswered[k], (k - self._turn) % count))
            self._unanswered[place] += 1
        try:
            return self._get(self._actors[place].do.remote(data), f"answer {method}")
        finally:
            with self._choosing:
                self._unanswered[place] -= 1

    def call_all(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Run a method of the object in each replica, and return what they return.

        Raises:
            Exception: as `call`; other replicas may have run it.
        """
        self._refuse_if_closed()
        data = self._ray.put(dumps((method, args, kwargs)))
        requests = [actor.do.remote(data) for actor in self._actors]
        return [self._get(request, f"answer {method}") for request in requests]

    def close(self) -> None:
        """Use the actor no more: one without a name ends, one with a name stays while the process lives that made it."""
        if self.actor_name is None:
            self.kill()
        self.closed = True
        self._actors = []

    def kill(self) -> None:
        """End the actor, for everyone who uses it."""
        if self._ray.is_initialized():
            for actor in self._actors:
                self._ray.kill(actor)
        for name in self._names:
            _NAMED.pop(name or "", None)
        self.closed = True
        self._actors = []

    def _refuse_if_closed(self) -> None:
        if self.closed:
            raise RuntimeError(f"this {self._what} in a Ray actor is closed")

    def _use_in_turn(self) -> None:
        self._choosing = threading.Lock()
        self._unanswered = [0] * len(self._actors)
        self._turn = uuid.uuid4().int  # processes begin with different replicas

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
        if self.actor_name is None:
            raise TypeError(
                f"this {self._what} in a Ray actor has no name by which another process could find it"
            )
        here = ("_ray", "_actors", "_choosing", "_unanswered", "_turn")
        return {name: value for name, value in self.__dict__.items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ray = ray = _import_ray(self._what)
        if not ray.is_initialized():
            ray.init(address=self._address, namespace=self._namespace)
        names = [] if self.closed else self._names
        try:
            self._actors = [ray.get_actor(name, self._namespace) for name in names]
        except ValueError as error:
            raise RuntimeError(f"the actor of this {self._what} is gone: {error}") from error
        self._use_in_turn()


class _Host:
    """What runs in an actor: an object, made when it is first needed."""

    def __init__(self, create: bytes, settings: dict[str, str], maker: str) -> None:
        self.create, self.settings, self.maker = create, settings, maker
        self.hosted: Any = None

    def identity(self) -> bytes:
        """The settings, and who asked for the actor; pickled."""
        return dumps((self.settings, self.maker))

    def start(self) -> bytes:
        """Make the object, if it is not there; pickled, None or `Failure`."""
        try:
            if self.hosted is None:
                self.hosted = loads(self.create)()
            return dumps(None)
        except Exception as error:
            return dumps(Failure(error))

    def do(self, data: bytes) -> bytes:
        """Run a method of the object; the pickled result, or `Failure`."""
        try:
            method, args, kwargs = loads(data)
            return dumps(getattr(self.hosted, method)(*args, **kwargs))
        except Exception as error:
            return dumps(Failure(error))


def _name_of(actor_name: str, replica: int) -> str:
    return f"{actor_name}.{replica}" if replica else actor_name


def _is_there(ray: Any, name: str) -> bool:
    try:
        ray.get_actor(name)
    except ValueError:
        return False
    return True


def _import_ray(what: str) -> Any:
    return import_extra("ray", f"{what} in an actor needs Ray", "ray")
