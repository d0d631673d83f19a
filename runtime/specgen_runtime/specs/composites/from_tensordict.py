"""`make_composite_from_td`: the spec of a tensordict that is already there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, TypedTensorDict, is_non_tensor, is_tensor_collection

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.keys import say_where
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.unbounded import Unbounded

__all__ = ["make_composite_from_td"]


def make_composite_from_td(
    data: Any, *, unsqueeze_null_shapes: bool = True, dynamic_shape: bool = False
) -> Composite:
    """Return a spec that a tensordict belongs to, and that knows nothing of the domains: they are unbounded.

    ```python
    data = TensorDict(obs=torch.randn(3), next=TensorDict(reward=torch.zeros(1)))
    make_composite_from_td(data)["next", "reward"].shape  # (1,)
    ```

    Args:
        data: a tensordict or a tensorclass. Its batch size becomes the shape of the spec, its class the
            `data_cls` (`TensorDict` for all forms of a plain one, such as lazy stacks), its dimensions' names
            the `names`. Entries keep dtypes and devices; the spec itself has no device. Data that are not
            tensors become a `NonTensor` with one of them as the example.
        unsqueeze_null_shapes: give tensors without dimensions the shape `(1,)`.
        dynamic_shape: make the last dimension of every tensor variable (-1).

    Raises:
        TypeError: if `data` is neither, or holds tensors of a dtype that no spec has.
        ValueError: if `dynamic_shape` would make a batch dimension variable.
        RuntimeError: if an entry of a lazy stack has no one shape.
    """
    if not is_tensor_collection(data) or is_non_tensor(data) or isinstance(data, type):
        raise TypeError(f"expected a tensordict or a tensorclass, got {type(data).__name__}")

    def sized(shape: torch.Size) -> torch.Size:
        if dynamic_shape and shape:
            return torch.Size((*shape[:-1], -1))
        return shape if shape or not unsqueeze_null_shapes else torch.Size((1,))

    return _spec_of(data, sized)


def _spec_of(data: Any, sized: Callable[[torch.Size], torch.Size]) -> Composite:
    # A tensorclass gives data that are no tensors as they are, but holds them wrapped.
    source = data if isinstance(data, TensorDictBase) else dict(data.items())
    entries: dict[str, TensorSpec] = {}
    for name in source.keys():  # noqa: SIM118  # a tensordict iterates over its batch
        try:
            entry: Any = source.get(name)
            if is_non_tensor(entry):
                entries[name] = _spec_of_objects(entry, data.ndim)
            elif is_tensor_collection(entry):
                entries[name] = _spec_of(entry, sized)
            else:
                entries[name] = _spec_of_tensor(entry, sized, data.ndim)
        except (RuntimeError, TypeError, ValueError) as error:
            say_where(error, f"key {name!r}")
            raise
    return Composite(entries, shape=data.batch_size, data_cls=_data_cls(data), names=data.names)


def _spec_of_tensor(
    entry: torch.Tensor, sized: Callable[[torch.Size], torch.Size], batch_dims: int
) -> Unbounded:
    if entry.is_nested:
        raise TypeError("expected a tensor of one shape, got a nested tensor")
    shape = sized(entry.shape)
    if -1 in shape[:batch_dims]:
        raise ValueError(
            f"dynamic_shape makes the last dimension of every tensor variable, but in shape {tuple(entry.shape)} "
            "it is a batch dimension"
        )
    return Unbounded(shape, entry.device, entry.dtype)


def _spec_of_objects(entry: Any, batch_dims: int) -> NonTensor:
    shape = entry.batch_size
    example = entry.reshape(-1)[0].data if shape.numel() else None
    return NonTensor(shape, entry.device, example_data=example, feature_dims=len(shape) - batch_dims)


def _data_cls(data: Any) -> type:
    known = isinstance(data, TensorDict | TypedTensorDict) or not isinstance(data, TensorDictBase)
    return type(data) if known else TensorDict
