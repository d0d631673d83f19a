"""`CommonStatistics`: environments that learn the same statistics, and environments that only read them."""

from __future__ import annotations

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
        self._first: list[LearningTransform[Any, Any]] | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> E:
        """An environment that learns together with all others that are made so."""
        env = self._create_env(*args, **kwargs)
        held = _held_by(env)
        if self._first is None:
            self._first = held
        for transform, first in zip(held, self._first, strict=True):
            transform._statistics = first._statistics
        return env

    def frozen(self, *args: P.args, **kwargs: P.kwargs) -> E:
        """An environment that reads the statistics of the others and learns nothing.

        Raises:
            RuntimeError: there is no environment yet that learns.
        """
        if self._first is None:
            raise RuntimeError("no environment has been made that learns the statistics: make that one first")
        env = self._create_env(*args, **kwargs)
        for transform, first in zip(_held_by(env), self._first, strict=True):
            transform._statistics = first._statistics.read_only()
        return env


def _held_by(env: EnvBase[Any, Any]) -> list[LearningTransform[Any, Any]]:
    """The transforms of an environment whose statistics follow from data, in their order.

    What is learned of beginnings alone, such as a number of episodes, each environment has for itself.
    """
    return [
        module
        for module in env.modules()
        if isinstance(module, LearningTransform) and module._learns != "at_reset"
    ]
