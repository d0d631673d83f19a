"""What runs in the workers of collectors, and how one is spoken to, wherever it runs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch

from specgen_runtime.collectors.collector import Collector
from specgen_runtime.collectors.policies import load_weights
from specgen_runtime.envs.batched.messages import dumps_function, loads
from specgen_runtime.random_state import policy_generators

__all__ = ["HostedCollector", "Worker", "WorkerLostError", "pickled_worker", "worker_seed"]


class WorkerLostError(RuntimeError):
    """A worker ended without an answer."""


class Worker(ABC):
    """A collector elsewhere that does one command after the other.

    Attributes:
        version: of the weights that it was sent last; None before any.
        busy: whether it has a command to answer.
    """

    version: int | None = None
    busy: bool = False

    @abstractmethod
    def send(self, command: str, argument: Any = None) -> None:
        """Give it a command of `HostedCollector`. Raises WorkerLostError if it ended."""

    @abstractmethod
    def receive(self) -> Any:
        """Wait for the answer.

        Raises:
            WorkerLostError: it ended.
            Exception: what the command raised.
        """

    @abstractmethod
    def close(self, timeout: float) -> None:
        """Close its environment and end it; at once if `timeout` is 0, or when so many seconds have passed."""

    def call(self, command: str, argument: Any = None) -> Any:
        """Give it a command, and wait for the answer."""
        self.send(command, argument)
        return self.receive()


def worker_seed(seed: int, place: int, life: int) -> int:
    """The seed of a worker, less than 2**31: a digest, so that it depends on these three numbers and nothing else.

    Args:
        seed: of the whole collector.
        place: which of the workers it is.
        life: how many workers there were before it at this place.
    """
    digest = hashlib.sha256(f"{seed}/worker/{place}/{life}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def pickled_worker(
    create: Callable[..., Any], kwargs: Mapping[str, Any], place: int, keywords: Mapping[str, Any]
) -> bytes:
    """What `HostedCollector` is made of.

    Raises:
        TypeError: it can't be pickled.
    """
    return dumps_function(create, {"create_env_kwargs": dict(kwargs), **keywords}, place)


class HostedCollector:
    """A `Collector` in a worker, and the commands that it knows.

    Args:
        data: of `pickled_worker`; `init_fn` among its keywords is called first.
        seed: of the environment, of torch, and of the generators that the policy has: copies of one generator, as all
            workers are given, would draw the same in each.
    """

    def __init__(self, data: bytes, seed: int) -> None:
        create, keywords = loads(data)
        init = keywords.pop("init_fn", None)
        if init is not None:
            init()
        torch.manual_seed(seed)
        self.collector: Collector[Any] = Collector(create, **keywords)
        self._generators = policy_generators(self.collector.policy)
        self._seed_all(seed)

    def _seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)
        for place, generator in enumerate(self._generators):
            generator.manual_seed(worker_seed(seed, place, 0))
        self.collector.set_seed(seed)

    def do(self, command: str, argument: Any) -> Any:
        """Carry out a command."""
        return getattr(self, f"do_{command}")(argument)

    def do_collect(self, argument: tuple[int, int, Any]) -> Any:
        """A batch, after `argument`: the transitions that all workers have collected, the version and the weights."""
        collector, (frames, version, weights) = self.collector, argument
        if weights is not None:
            load_weights(collector.policy, weights)
        collector.version, collector.frames = version, frames
        return collector.rollout()

    def do_seed(self, seed: int) -> None:
        """Seed the environment, torch and the policy, and begin new episodes."""
        self._seed_all(seed)
        self.collector.forget_episodes()

    def do_number(self, first: int) -> None:
        """Give the trajectories that begin from here on the numbers from `first`."""
        self.collector._numbers.free = first

    def do_reset(self, _: Any) -> None:
        """Begin new episodes."""
        self.collector.reset()

    def do_state(self, with_policy: bool) -> dict[str, Any]:
        """The state dict, with the states of the policy's generators; without its weights where those are elsewhere."""
        state = self.collector.state_dict()
        if not with_policy:
            state.pop("policy_state_dict", None)
        return {**state, "policy_generators": [generator.get_state() for generator in self._generators]}

    def do_load(self, state: dict[str, Any]) -> None:
        """Load a state dict."""
        self.collector.load_state_dict(state)
        for generator, drawing in zip(self._generators, state["policy_generators"], strict=True):
            generator.set_state(drawing)

    def do_close(self, _: Any) -> None:
        """Close the environment."""
        self.collector.shutdown()
