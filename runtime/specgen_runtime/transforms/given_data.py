"""Steps and resets of transforms that are in no environment: what they need to know is in the data that they are given."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from tensordict import TensorDictBase

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["reset_from_given_data", "step_from_given_data"]

T = TypeVar("T", bound="GeneratedTransform[Any, Any]")
Moment = Callable[[T, TensorDictBase, TensorDictBase], TensorDictBase]


def step_from_given_data(method: Moment[T]) -> Moment[T]:
    """Let a `_step` take keys, shapes and dtypes from the moments that it is given, if there is no environment."""

    @wraps(method)
    def call(self: T, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.parent is None and self._data is None:
            self = self._bound_to(tensordict.exclude("next").set("next", next_tensordict))
        return method(self, tensordict, next_tensordict)

    return call


def reset_from_given_data(method: Moment[T]) -> Moment[T]:
    """As `step_from_given_data`, for a `_reset`: of all rows, whatever mask stands in the data."""

    @wraps(method)
    def call(self: T, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.parent is None and self._data is None:
            self = self._bound_to(tensordict.copy().update(tensordict_reset))
        return method(self, tensordict, tensordict_reset)

    return call
