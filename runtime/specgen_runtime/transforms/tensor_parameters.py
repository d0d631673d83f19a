"""Parameters that are tensors: they have no more dimensions than a row of what they meet, and broadcast to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.columns import stored_shape
from specgen_runtime.transforms.key_finding import INPUTS
from specgen_runtime.transforms.keys import each_key
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.entries import EntriesTransform

__all__ = ["refuse_wide_parameters", "refuse_wide_parameters_of_inverse"]


def refuse_wide_parameters(transform: EntriesTransform[Any, Any]) -> None:
    """Compare the tensors among the parameters of a transform with what they meet, in its environment or its data.

    Raises:
        ValueError: one of them does not broadcast to a row of an input, which it would make larger.
    """
    for row in transform.keys if transform._meets else ():
        for name, role in transform._meets.items():
            for key in each_key(getattr(row, role)):
                shape = stored_shape(transform, key)
                if shape is not None and transform._logical and key in transform._columns.read:
                    shape = shape[:-1]
                if shape is not None:
                    _refuse_wide(transform, name, key, shape)


def refuse_wide_parameters_of_inverse(
    transform: EntriesTransform[Any, Any], tensordict: TensorDictBase | None = None
) -> None:
    """As `refuse_wide_parameters`, of what the environment is given, or of recorded data that the policy wrote."""
    for row in transform.keys_inv if transform._meets_inverse else ():
        for name, role in transform._meets_inverse.items():
            if tensordict is None:
                for key in each_key(getattr(row, role)):
                    _refuse_wide(
                        transform, name, key, transform._spec(key, INPUTS).shape[transform._batch_dims() :]
                    )
                continue
            for key in transform._fields(transform._takes, [row]):
                value: Tensor | None = tensordict.get(key, None)
                if value is not None:
                    _refuse_wide(transform, name, key, value.shape[tensordict.ndim :])


def _refuse_wide(
    transform: EntriesTransform[Any, Any], name: str, key: NestedKey, shape: Sequence[int]
) -> None:
    value: Tensor | None = getattr(transform, name)
    if value is None:
        return
    sizes = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or any(own not in (1, size) for own, size in sizes):
        raise ValueError(
            f"{type(transform).__name__}: {name} has the shape {list(value.shape)}, and a row of {key!r} has "
            f"{list(shape)}: give a number, or one for each of its elements"
        )
