"""Steps and resets of transforms: what no environment tells is in the data that they are given."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from tensordict import TensorDictBase

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["reset_from_given_data", "reset_moment", "step_from_given_data", "step_moment"]

T = TypeVar("T", bound="GeneratedTransform[Any, Any]")
Moment = Callable[[T, TensorDictBase, TensorDictBase], TensorDictBase]


def step_moment(before: TensorDictBase, after: TensorDictBase) -> TensorDictBase:
    """What tells the keys of a step: the entries before it, and those after it under ``"next"``."""
    return before.exclude("next").set("next", after)


def reset_moment(before: TensorDictBase, fresh: TensorDictBase) -> TensorDictBase:
    """What tells the keys of a reset: fresh entries, and those before it that have none."""
    return before.copy().update(fresh)


def _bound_to_given_data(
    moment: Callable[[TensorDictBase, TensorDictBase], TensorDictBase],
) -> Callable[[Moment[T]], Moment[T]]:
    """The decorator of methods that take keys, shapes and dtypes from `moment` of their data, if there is no environment."""

    def decorate(method: Moment[T]) -> Moment[T]:
        @wraps(method)
        def call(self: T, tensordict: TensorDictBase, given: TensorDictBase) -> TensorDictBase:
            env = self.parent
            if env is not None and not env.batch_locked and given.batch_size != env.batch_size:
                self.__dict__["_in_front"] = given.batch_size[: given.ndim - len(env.batch_size)]
                try:
                    return method(self, tensordict, given)
                finally:
                    del self.__dict__["_in_front"]
            if env is not None or self._data is not None:
                return method(self, tensordict, given)
            made = method(self._bound_to(moment(tensordict, given)), tensordict, given)
            self.__dict__["_moment_before"] = made.copy() if self._recalls else None
            return made

        return call

    return decorate


def step_from_given_data(method: Moment[T]) -> Moment[T]:
    """Let a `_step` take keys, shapes and dtypes from the moments that it is given, if there is no environment."""
    decorate: Callable[[Moment[T]], Moment[T]] = _bound_to_given_data(step_moment)
    return decorate(method)


def reset_from_given_data(method: Moment[T]) -> Moment[T]:
    """As `step_from_given_data`, for a `_reset`: of all rows, whatever mask stands in the data."""
    decorate: Callable[[Moment[T]], Moment[T]] = _bound_to_given_data(reset_moment)
    return decorate(method)
