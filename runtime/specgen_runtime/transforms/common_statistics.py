"""`CommonStatistics`: environments that learn the same statistics, and environments that only read them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from specgen_runtime.envs import EnvBase
from specgen_runtime.transforms.statistics import LearningTransform

__all__ = ["CommonStatistics"]

P = ParamSpec("P")
E = TypeVar("E", bound=EnvBase[Any, Any])


class CommonStatistics(Generic[P, E]):
    """Makes environments whose transforms learn one set of statistics: a normaliser counts what all of them have seen.

    ``CommonStatistics(HopperTrain)`` is called as ``HopperTrain`` is, and goes where a function that makes an environment
    does (``SerialEnv(8, statistics)``). Environments that ``frozen`` makes normalise with the statistics as they are at the
    moment, and change nothing: those of evaluations.

    It is for environments of one process and one device. `Transform.share_memory` is for those of several processes.

    Args:
        create_env: makes an environment or a chain, the same one each time.
    """

    def __init__(self, create_env: Callable[P, E]) -> None:
        self._create_env = create_env
        self._process = os.getpid()
        self._first: list[LearningTransform[Any, Any]] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> E:
        """An environment that learns together with all others that are made so.

        Raises:
            RuntimeError: another process than this object's makes one, as those of a `ParallelEnv` do.
            ValueError: the environment has other transforms that learn than the first one.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "environments of another process would learn statistics of their own: CommonStatistics is for those of one"
                " process (SerialEnv); processes share them by `share_memory` of the transform"
            )
        env, pairs = self._made(*args, **kwargs)
        for transform, first in pairs:
            transform._statistics = first._statistics
        return env

    def frozen(self, *args: P.args, **kwargs: P.kwargs) -> E:
        """An environment that reads the statistics of the others and learns nothing.

        Raises:
            RuntimeError: there is no environment yet that learns.
            ValueError: the environment has other transforms that learn than the first one.
        """
        if self._first is None:
            raise RuntimeError("no environment has been made that learns the statistics: make that one first")
        env, pairs = self._made(*args, **kwargs)
        for transform, first in pairs:
            transform._statistics = first._statistics.read_only()
        return env

    def _made(
        self, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[E, list[tuple[LearningTransform[Any, Any], LearningTransform[Any, Any]]]]:
        """A new environment, and its transforms that learn, each with that of the first environment."""
        env = self._create_env(*args, **kwargs)
        held = _held_by(env)
        if self._first is None:
            self._first = held
        names, first = ([type(one).__name__ for one in of] for of in (held, self._first))
        if names != first:
            raise ValueError(f"the first environment learns statistics in {first}, this one in {names}")
        return env, list(zip(held, self._first, strict=True))


def _held_by(env: EnvBase[Any, Any]) -> list[LearningTransform[Any, Any]]:
    """The transforms of an environment whose statistics follow from data, in their order.

    What is learned of beginnings alone, such as a number of episodes, each environment has for itself.
    """
    return [
        module
        for module in env.modules()
        if isinstance(module, LearningTransform) and module._learns != "at_reset"
    ]
