"""Data that are not tensors: wrapping them with a shape, taking them out, and comparing them.

Wrapped data are tensordict's `NonTensorData` (one Python object for all places of a shape) and `NonTensorStack`
(one for each place). Both are handled as `Any`: tensordict ships no types.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, is_non_tensor, is_tensor_collection

__all__ = ["Opaque", "data_text", "elements", "filled", "has_sizes", "nested", "plain", "same_data"]

Opaque = Any
"""A `NonTensorData` or a `NonTensorStack`."""


def filled(data: Any, sizes: Sequence[int], feature_dims: int, device: torch.device | None) -> Opaque:
    """Wrap one object: a `NonTensorData` over the last dimensions, stacked over those in front.

    Args:
        data: the object; every place refers to it.
        sizes: the shape of the result. Without any place (a size of 0) nothing is stacked.
        feature_dims: how many of the last dimensions are inside each `NonTensorData`.
        device: the device that the result names.
    """
    if len(sizes) == feature_dims or 0 in sizes:
        return NonTensorData(data, batch_size=torch.Size(sizes), device=device)
    return NonTensorStack(*[filled(data, sizes[1:], feature_dims, device) for _ in range(sizes[0])])


def nested(data: Any, sizes: Sequence[int], feature_dims: int, device: torch.device | None) -> Opaque:
    """Wrap a nested list with an object for each place of the dimensions in front; the others as `filled`.

    Args:
        data: lists, nested as deeply as there are dimensions in front.
        sizes: the shape of the result; the lengths of the lists prevail.
        feature_dims: how many of the last dimensions are inside each `NonTensorData`.
        device: the device that the result names.
    """
    if len(sizes) == feature_dims:
        return filled(data, sizes, feature_dims, device)
    if not data:
        return filled(None, (0, *sizes[1:]), feature_dims, device)
    return NonTensorStack(*[nested(entry, sizes[1:], feature_dims, device) for entry in data])


def has_sizes(data: Any, sizes: Sequence[int]) -> bool:
    """Whether data are lists, nested to these lengths (-1 is any length)."""
    if not sizes:
        return True
    return (
        isinstance(data, list)
        and sizes[0] in (-1, len(data))
        and all(has_sizes(entry, sizes[1:]) for entry in data)
    )


def elements(value: Opaque) -> list[Any]:
    """The objects at all places, the last dimension running fastest."""
    if isinstance(value, NonTensorStack):
        return [element for row in value.unbind(0) for element in elements(row)]
    return [value.data] * value.batch_size.numel()


def plain(value: Opaque, feature_dims: int) -> Any:
    """Take the objects out: lists over the dimensions in front, one object for the last `feature_dims`."""
    if len(value.batch_size) > feature_dims:
        return [plain(row, feature_dims) for row in value.unbind(0)]
    if not isinstance(value, NonTensorStack):
        return value.data
    found = elements(value)
    if found and all(same_data(element, found[0]) for element in found[1:]):
        return found[0]
    return value.tolist()


def same_data(left: Any, right: Any) -> bool:
    """Compare two objects as a whole: arrays, tensors and containers of them by their contents.

    NaN equals NaN. Objects that can't be compared are equal only to themselves.
    """
    if left is right:
        return True
    # Before mappings, which tensordicts are too.
    if is_tensor_collection(left) or is_tensor_collection(right):
        return is_tensor_collection(left) and is_tensor_collection(right) and _same_collections(left, right)
    for kind, same in _KINDS:
        if isinstance(left, kind) or isinstance(right, kind):
            return isinstance(left, kind) and isinstance(right, kind) and bool(same(left, right))
    try:
        return bool(left == right) or bool(left != left and right != right)
    except Exception:  # whatever a class of the user's raises: it can't be compared
        return False


def _same_tensors(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.is_nested or right.is_nested:  # which have no shape
        return left.is_nested and right.is_nested and _same_sequences(left.unbind(0), right.unbind(0))
    if left.dtype != right.dtype or left.device != right.device or left.shape != right.shape:
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _same_arrays(left: Any, right: Any) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind == "O":
        return all(map(same_data, left.flat, right.flat))
    return np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")


def _same_mappings(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    return len(left) == len(right) and all(key in right and same_data(left[key], right[key]) for key in left)


def _same_sequences(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return len(left) == len(right) and all(map(same_data, left, right))


_KINDS: tuple[tuple[type, Any], ...] = (
    (torch.Tensor, _same_tensors),
    (np.ndarray, _same_arrays),
    (list, _same_sequences),
    (tuple, _same_sequences),
    (Mapping, _same_mappings),
)


def _same_collections(left: Any, right: Any) -> bool:
    if left.batch_size != right.batch_size or is_non_tensor(left) != is_non_tensor(right):
        return False
    if is_non_tensor(left):
        return _same_sequences(elements(left), elements(right))
    return set(left.keys()) == set(right.keys()) and all(
        same_data(left.get(key), right.get(key))
        for key in left.keys()  # noqa: SIM118  # iterating over a tensordict gives its rows
    )


def data_text(data: Any) -> str:
    """A short text for any object."""
    return " ".join(reprlib.repr(data).split())
