"""Gymnasium's spaces as specs, and values between the two worlds.

Gymnasium is not imported: spaces are recognised by the names of their classes, so that this module costs
nothing where no Gymnasium environment is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    OneHot,
    TensorSpec,
    Unbounded,
)

__all__ = ["action_decoder", "actions_decoder", "space_kind", "space_to_spec", "torch_dtype", "value_encoder"]

_KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict")


def torch_dtype(dtype: Any) -> torch.dtype:
    """The torch dtype of a NumPy dtype.

    Raises:
        TypeError: torch has no such dtype.
    """
    return torch.from_numpy(np.zeros((), dtype=dtype)).dtype


def space_kind(space: Any) -> str:
    """Which kind of space it is: the name of the Gymnasium class that it is or derives from.

    Raises:
        TypeError: a kind that no spec describes here.
    """
    for cls in type(space).__mro__:
        if cls.__name__ in _KINDS and cls.__module__.startswith("gymnasium."):
            return cls.__name__
    raise TypeError(
        f"no spec describes the Gymnasium space {type(space).__name__}; supported are {', '.join(_KINDS)}"
    )


def space_to_spec(
    space: Any,
    *,
    categorical_action_encoding: bool = False,
    device: torch.device | None = None,
) -> TensorSpec:
    """Describe a Gymnasium space.

    Box: `Bounded`, or `Unbounded` if no bound is finite or the bounds are those of the dtype. Discrete:
    `OneHot` of int64, or `Categorical`. MultiDiscrete: `OneHot` of shape `[k, n]` or `Categorical` of shape
    `[k]` if all sizes are `n`, else `MultiCategorical`. MultiBinary: `Binary` of int8. Dict: `Composite`.

    Args:
        space: the space.
        categorical_action_encoding: indices instead of one-hot vectors.
        device: the device of the spec.

    Raises:
        TypeError: a kind of space that no spec describes.
        ValueError: a MultiDiscrete of different sizes without `categorical_action_encoding`.
    """
    kind = space_kind(space)
    if kind == "Box":
        return _box_spec(space, device)
    if kind == "Discrete":
        n = int(space.n)
        if categorical_action_encoding:
            return Categorical(n, device=device)
        return OneHot(n, dtype=torch.int64, device=device)
    if kind == "MultiBinary":
        return Binary(shape=tuple(space.shape), device=device)
    if kind == "MultiDiscrete":
        return _multi_discrete_spec(space, categorical_action_encoding, device)
    return Composite(
        {
            name: space_to_spec(inner, categorical_action_encoding=categorical_action_encoding, device=device)
            for name, inner in space.spaces.items()
        },
        device=device,
    )


def _box_spec(space: Any, device: torch.device | None) -> TensorSpec:
    dtype = torch_dtype(space.dtype)
    shape = tuple(space.shape)
    low, high = np.asarray(space.low), np.asarray(space.high)
    if dtype.is_floating_point:
        limits = np.finfo(space.dtype)
        free = bool(np.all((low <= limits.min) & (high >= limits.max)))
    elif dtype is torch.bool:
        free = True
    else:
        whole = np.iinfo(space.dtype)
        free = bool(np.all((low == whole.min) & (high == whole.max)))
    if free:
        return Unbounded(shape=shape, dtype=dtype, device=device)
    return Bounded(
        low=torch.from_numpy(low.copy()),
        high=torch.from_numpy(high.copy()),
        shape=shape,
        dtype=dtype,
        device=device,
    )


def _multi_discrete_spec(space: Any, categorical: bool, device: torch.device | None) -> TensorSpec:
    sizes = np.asarray(space.nvec)
    same = bool((sizes == sizes.flat[0]).all())
    n = int(sizes.flat[0])
    if categorical:
        if same:
            return Categorical(n, shape=sizes.shape, device=device)
        return MultiCategorical(torch.from_numpy(sizes.astype(np.int64)), device=device)
    if same:
        return OneHot(n, shape=(*sizes.shape, n), dtype=torch.int64, device=device)
    raise ValueError(
        f"MultiDiscrete({sizes.tolist()}) has different sizes, which no one-hot spec describes;"
        " pass categorical_action_encoding=True"
    )


def value_encoder(space: Any, spec: TensorSpec) -> Callable[[Any], Any]:
    """Return the function from a Gymnasium value to a tensor of `spec`.

    The tensors never share memory with what Gymnasium holds. A Dict gives a dict of tensors.
    """
    if isinstance(spec, Composite):
        inner = {name: value_encoder(space.spaces[name], spec[name]) for name in spec.keys()}  # noqa: SIM118
        return lambda value: {name: encode(value[name]) for name, encode in inner.items()}
    dtype = spec.dtype
    assert dtype is not None
    numpy_dtype = torch.empty((), dtype=dtype).numpy().dtype
    shape = tuple(spec.shape)
    device = spec.device if spec.device is not None and spec.device.type != "cpu" else None
    start = getattr(space, "start", None)
    offset = None if start is None or not np.any(start) else np.asarray(start)
    classes = np.eye(spec.n, dtype=numpy_dtype) if isinstance(spec, OneHot) else None

    def encode(value: Any) -> Tensor:
        array = np.array(value) if offset is None else np.asarray(np.asarray(value) - offset)
        if classes is not None:
            array = classes[array]
        array = array.astype(numpy_dtype, copy=False)
        if array.shape != shape:
            raise ValueError(
                f"Gymnasium gave an observation of shape {list(array.shape)}, its space says {list(shape)}"
            )
        tensor = torch.from_numpy(array)
        return tensor if device is None else tensor.to(device)

    return encode


def action_decoder(space: Any, spec: TensorSpec) -> Callable[[Any], Any]:
    """Return the function from a tensor of `spec` (a tensordict for a Composite) to a Gymnasium action."""
    kind = space_kind(space)
    if kind == "Dict":
        assert isinstance(spec, Composite)
        inner = {name: action_decoder(space.spaces[name], spec[name]) for name in spec.keys()}  # noqa: SIM118
        return lambda action: {name: decode(action.get(name)) for name, decode in inner.items()}
    if kind == "Discrete":
        start = int(space.start)
        if isinstance(spec, OneHot):
            return lambda action: int(action.argmax(-1)) + start
        return lambda action: int(action) + start
    start_array = np.asarray(getattr(space, "start", 0))
    if kind == "MultiDiscrete" and isinstance(spec, OneHot):
        return lambda action: action.argmax(-1).cpu().numpy() + start_array
    if kind == "MultiDiscrete":
        return lambda action: action.cpu().numpy() + start_array
    dtype = space.dtype
    return lambda action: action.detach().cpu().numpy().astype(dtype, copy=True)


def actions_decoder(space: Any, spec: TensorSpec) -> Callable[[Tensor], list[Any]]:
    """Return the function from tensors `(T, ...)` of `spec` to the list of their T Gymnasium actions.

    Raises:
        TypeError: the space is a Dict.
    """
    kind = space_kind(space)
    if kind == "Dict":
        raise TypeError("actions of a Dict space are decoded one by one")
    if kind == "Discrete":
        start = int(space.start)
        if isinstance(spec, OneHot):
            return lambda actions: list(actions.argmax(-1).cpu().numpy() + start)
        # NumPy integers: Gymnasium checks them faster than Python's
        return lambda actions: list(actions.cpu().numpy() + start)
    decode = action_decoder(space, spec)
    return lambda actions: list(decode(actions))
