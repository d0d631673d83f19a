"""Values of stacked specs: joining the items' values into one, and taking them apart again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import LazyStackedTensorDict, NonTensorStack, is_non_tensor, is_tensor_collection

__all__ = ["join", "join_arrays", "split", "split_data"]


def join(values: Sequence[Any], dim: int) -> Any:
    """Stack values along a new dimension.

    Args:
        values: at least one; tensors, tensordicts or data that are not tensors, all of one kind.
        dim: the place of the new dimension, counted from the front.

    Returns:
        A tensor, or a nested tensor if sizes differ and `dim` is 0; a tensordict, lazily stacked if the entries
        differ; or a `NonTensorStack`.

    Raises:
        RuntimeError: if sizes differ and `dim` is not 0, or the tensors are nested already.
    """
    first = values[0]
    if is_non_tensor(first):
        return NonTensorStack(*values, stack_dim=dim)
    if is_tensor_collection(first):
        return LazyStackedTensorDict.maybe_dense_stack(list(values), dim)
    if any(value.is_nested for value in values):
        raise RuntimeError("cannot stack nested tensors: sizes may differ among the items of one stack only")
    if all(value.shape == first.shape for value in values):
        return torch.stack(tuple(values), dim)
    if dim == 0:
        return torch.nested.nested_tensor(list(values))
    shapes = ", ".join(str(tuple(value.shape)) for value in values)
    raise RuntimeError(
        f"cannot stack tensors of different shapes ({shapes}) along dimension {dim}: a nested tensor holds them "
        "only along dimension 0"
    )


def join_arrays(values: Sequence[Any], dim: int) -> Any:
    """Stack NumPy data along a new dimension.

    Data that differ in shape, or are no numbers, become a tuple. Dicts are stacked key by key, with None in the tuples
    of keys that not all of them have.
    """
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: join_arrays([value.get(key) for value in values], dim) for key in keys}
    numeric = all(isinstance(value, np.ndarray | np.generic | bool | int | float) for value in values)
    if numeric and len({np.shape(value) for value in values}) == 1:
        return np.stack(values, dim)
    return tuple(values)


def split(value: Any, shape: torch.Size, dim: int) -> tuple[list[Any], int] | str:
    """Take apart a value of stacked specs.

    Args:
        value: a tensor, a nested tensor, a tensordict or data that are not tensors; further dimensions may be in
            front. Or a list or tuple of the items' values.
        shape: the shape of the stack.
        dim: the stack dimension.

    Returns:
        The items' values, and the dimension along which they were stacked; or what is wrong with the value.
    """
    count = shape[dim]
    if isinstance(value, list | tuple):
        if len(value) != count:
            return f"expected {count} values, one for each stacked spec, got {len(value)}"
        return list(value), dim
    place = value.ndim - len(shape) + dim
    if isinstance(value, torch.Tensor) and value.is_nested:
        if place == dim == 0 and value.size(0) == count:
            return list(value.unbind(0)), 0
        return f"expected shape {tuple(shape)}, got a nested tensor of {value.size(0)} tensors"
    if place < dim or value.shape[place] != count:
        return f"expected shape {tuple(shape)} (or more dimensions in front), got {tuple(value.shape)}"
    return list(value.unbind(place)), place


def split_data(data: Any, count: int, dim: int) -> list[Any] | str:
    """Take apart data from outside.

    Args:
        data: an array or a tensor, in which the items' data are stacked; a tuple of the items' data (or a list, if
            `dim` is 0; other lists are arrays); or a mapping of such, key by key.
        count: the number of items.
        dim: the stack dimension.

    Returns:
        The items' data; or what is wrong with them.
    """
    if isinstance(data, Mapping):
        columns = {key: split_data(column, count, dim) for key, column in data.items()}
        for key, column in columns.items():
            if isinstance(column, str):
                return f"{column}, in the entry {key!r}"
        return [{key: column[place] for key, column in columns.items()} for place in range(count)]
    if isinstance(data, tuple) or (isinstance(data, list) and dim == 0):
        return list(data) if len(data) == count else f"expected data for {count} items, got {len(data)}"
    if isinstance(data, list):
        try:
            data = np.asarray(data)
        except ValueError:
            return f"expected an array, or a tuple of data for {count} items, got {data!r}"
    if not isinstance(data, np.ndarray | torch.Tensor) and not is_tensor_collection(data):
        return f"expected data for {count} items, got {type(data).__name__}"
    if data.ndim <= dim or data.shape[dim] != count:
        return f"expected size {count} in dimension {dim}, where the items are stacked, got shape {tuple(data.shape)}"
    return list(np.moveaxis(data, dim, 0) if isinstance(data, np.ndarray) else data.unbind(dim))
