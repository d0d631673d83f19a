"""`FunctionTransform`: a plain function as a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tensordict import TensorDictBase

from specgen_runtime.transforms.base import Transform

__all__ = ["FunctionTransform", "TransformLike", "as_transform"]

TransformLike: TypeAlias = "Transform | Callable[[TensorDictBase], TensorDictBase]"
"""A transform, or a function from the entries of one moment to the transformed entries."""


class FunctionTransform(Transform):
    """Applies a function to the entries of each moment: at reset, at step and offline.

    Args:
        function: takes a tensordict and returns it, changed. At reset there is no reward in it. Entries that
            it adds are not in the specs: write a `Transform` for those.
    """

    def __init__(self, function: Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.function = function

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self.function(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self.function(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.function(tensordict)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.function, '__name__', self.function)})"


def as_transform(value: object) -> Transform:
    """`value` if it is a transform; a function is wrapped in one.

    Raises:
        TypeError: if it is neither.
    """
    if isinstance(value, Transform):
        return value
    if isinstance(value, type) and issubclass(value, Transform):
        raise TypeError(
            f"got the class {value.__name__} instead of a transform; write `{value.__name__}(...)`"
        )
    if callable(value):
        function: Any = value
        return FunctionTransform(function)
    raise TypeError(f"expected a Transform or a function of a tensordict, got {value!r}")
