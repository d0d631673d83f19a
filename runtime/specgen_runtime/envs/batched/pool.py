"""`Pool`: sends commands to the environments of a batch, in this process or elsewhere, and collects their answers."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.arguments import EnvFunction, checked_env
from specgen_runtime.envs.batched.worker_env import WorkerEnv

__all__ = ["LocalPool", "Pool", "RemotePool", "clear_unset_options"]

_OPTIONS = ("CAPTURE_NONTENSOR_STACK", "LAZY_LEGACY_OP", "LIST_TO_STACK")


def clear_unset_options() -> None:
    """Take tensordict's options that are not set out of the environment variables, before processes inherit them.

    Where an option was set for a while, tensordict (0.14) leaves the text `"None"` behind, at which a new process
    stumbles: "invalid truth value 'none'".
    """
    for name in _OPTIONS:
        if os.environ.get(name) == "None":
            del os.environ[name]


class Pool(ABC):
    """Environments that take commands: those of `WorkerEnv`, one at a time each.

    Attributes:
        count: how many there are.
        closed: whether they are gone.
    """

    count: int
    closed: bool = False

    @abstractmethod
    def run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Give a command to some environments, and wait for their answers.

        Raises:
            RuntimeError: an environment is gone (its process died); the pool is closed.
            Exception: what an environment raised; the pool is still of use.
        """

    @abstractmethod
    def close(self, timeout: float) -> None:
        """Close all environments and release what holds them, by force after so many seconds."""


class RemotePool(Pool):
    """Environments elsewhere, which carry out commands at the same time."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        clear_unset_options()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """From a command to its answers, nobody else may speak.

        Raises:
            RuntimeError: somebody does: another thread, or the code that a signal handler has interrupted.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "the environments are busy with another command: a batch of environments is for one thread at a time"
                " (and not for signal handlers); give each thread its own, or take turns with a lock"
            )
        try:
            yield
        finally:
            self._busy.release()

    @abstractmethod
    def send(self, place: int, command: str, argument: Any) -> None:
        """Give a command to one environment. The next thing is to collect its answer."""

    @abstractmethod
    def collect(self, places: Sequence[int]) -> list[Any]:
        """Wait for the answers of some environments that were given a command.

        Raises:
            RuntimeError: an environment is gone (its process died); the pool is closed.
            Exception: what an environment raised, after all have answered; the pool is still of use.
        """

    def run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Give a command to some environments, and wait for their answers."""
        places = list(arguments)
        with self.exclusive():
            for place in places:
                self.send(place, command, arguments[place])
            return dict(zip(places, self.collect(places), strict=True))


class LocalPool(Pool):
    """Environments in this process, which do what they are told at once.

    Args:
        functions: make them.
        kwargs: the functions' keyword arguments.
        made: environments that exist already, by place.
    """

    def __init__(
        self,
        functions: Sequence[EnvFunction[Any]],
        kwargs: Sequence[dict[str, Any]],
        made: Mapping[int, EnvBase[Any]],
    ) -> None:
        self.count = len(functions)
        envs: list[EnvBase[Any]] = []
        for place, function in enumerate(functions):
            env = made.get(place)
            if env is None:
                env = checked_env(function(**kwargs[place]), place)
            if any(env is other for other in envs):
                env = _another(env, place)
            envs.append(env)
        self.worker_envs = [WorkerEnv(env, remote=False) for env in envs]

    def run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Let some environments carry out a command, one after the other."""
        found: dict[int, Any] = {}
        for place, argument in arguments.items():
            try:
                found[place] = self.worker_envs[place].do(command, argument)
            except Exception as error:
                error.add_note(f"in environment {place} of {self.count}")
                raise
        return found

    def close(self, timeout: float) -> None:
        """Close the environments."""
        del timeout
        self.closed = True
        for worker_env in self.worker_envs:
            worker_env.do_close(None)


def _another(env: EnvBase[Any], place: int) -> EnvBase[Any]:
    """A copy of an environment that has a place already."""
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise RuntimeError(
            f"create_env_fn returned the same {type(env).__name__} again for environment {place}, and it can't be"
            f" copied ({error}); it must make a new environment each time it is called"
        ) from error
