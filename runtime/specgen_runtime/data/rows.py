"""Rows of tensordicts or tensors: space for many of them, what of other rows fits it, and which of them are at an index."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from tensordict import LazyStackedTensorDict, TensorDict, is_tensor_collection
from torch import Tensor

from specgen_runtime.envs.keys import MissingKeyError, join_key, show_key
from specgen_runtime.envs.packing import flat_td
from specgen_runtime.typing import NestedKey

__all__ = [
    "Leaves",
    "RowData",
    "allocate",
    "as_rows",
    "checked",
    "elements_at",
    "index_on",
    "is_key",
    "leaves_of",
    "reserve_disk",
    "row_ranges",
    "rows_first",
    "take",
]

RowData: TypeAlias = Any
"""A tensordict, a tensorclass or a tensor, whose first dimension counts rows; or a list of rows."""

Leaves: TypeAlias = dict[tuple[str, ...], Tensor]
"""The tensors of a tensordict by path; a tensor alone has the empty path."""


def as_rows(data: object) -> RowData:
    """Data as rows: a list is stacked, a lazy stack is made dense.

    Raises:
        TypeError: it is no tensordict, tensorclass, tensor, or list of these.
        RuntimeError: the elements of a list or lazy stack differ in their shapes.
    """
    if isinstance(data, list) and data:
        parts = [as_rows(entry) for entry in data]
        try:
            data = torch.stack(parts)
        except RuntimeError as error:
            raise RuntimeError(_differences(parts)) from error
    if isinstance(data, LazyStackedTensorDict):
        try:
            return data.contiguous()
        except RuntimeError as error:
            raise RuntimeError(_differences(data.tensordicts)) from error
    if isinstance(data, Tensor) or is_tensor_collection(data):
        return data
    raise TypeError(
        f"a replay buffer holds tensordicts, tensorclasses or tensors, or takes a list of them; got {type(data).__name__}"
    )


def _differences(parts: Sequence[RowData]) -> str:
    """What does not let parts be stacked."""
    found = [{path: list(leaf.shape) for path, leaf in leaves_of(part).items()} for part in parts]
    for path in dict.fromkeys(path for shapes in found for path in shapes):
        for shapes in found:
            if shapes.get(path) != found[0].get(path):
                first, other = (of.get(path, "missing") for of in (found[0], shapes))
                return (
                    f"rows can't be stacked: {_named(path)} is {first} in the first of them and {other} in another; "
                    "a LazyStackStorage keeps rows that differ"
                )
    return "rows can't be stacked: their batch sizes or dtypes differ"


def leaves_of(data: RowData) -> Leaves:
    """The tensors of `data` by their path.

    Raises:
        TypeError: an entry is no tensor.
    """
    if isinstance(data, Tensor):
        return {(): data}
    found: Leaves = {}
    _collect(data, (), found)
    return found


def _collect(data: Any, path: tuple[str, ...], found: Leaves) -> None:
    entries: Mapping[str, Any] = data._tensordict if type(data) is TensorDict else dict(data.items())
    for name, value in entries.items():
        if isinstance(value, Tensor):
            found[*path, name] = value
        elif _holds_tensors(value):
            _collect(value, (*path, name), found)
        else:
            raise TypeError(
                f"{show_key((*path, name))} holds {type(value).__name__}, which this storage can't keep: it keeps tensors. "
                "ListStorage and LazyStackStorage keep objects, too; or leave it out, data.exclude(...)"
            )


def is_key(index: Any) -> bool:
    """Whether an index is the key of an entry."""
    key: NestedKey = index
    return isinstance(key, str) or (
        isinstance(key, tuple) and bool(key) and all(isinstance(part, str) for part in key)
    )


def _holds_tensors(value: object) -> bool:
    return type(value) is TensorDict or (
        is_tensor_collection(value) and not type(value).__name__.startswith("NonTensor")
    )


def allocate(data: RowData, rows: int, device: torch.device | None) -> RowData:
    """Space for `rows` rows like those of `data`, of which there is at least one."""
    if isinstance(data, Tensor):
        return torch.empty((rows, *data.shape[1:]), dtype=data.dtype, device=device)
    example = data[0]
    return example.expand(rows, *example.batch_size).apply(
        lambda leaf: torch.empty(leaf.shape, dtype=leaf.dtype, device=device), device=device
    )


def checked(kept: Leaves, given: Leaves) -> None:
    """Refuse rows that are not like those that are kept.

    Args:
        kept: what is written over.
        given: what is to be written.

    Raises:
        KeyError: an entry is missing, or is not kept.
        ValueError: an entry has another shape.
        TypeError: an entry has another dtype.
    """
    for path, tensor in kept.items():
        value = given.get(path)
        if value is None:
            raise MissingKeyError(
                f"{_named(path)} is in the replay buffer, and missing in the data, which hold {_keys(given)}"
            )
        if value.dtype != tensor.dtype:
            raise TypeError(f"{_named(path)} is {value.dtype}, the replay buffer keeps it as {tensor.dtype}")
        if value.shape != tensor.shape:
            raise ValueError(
                f"{_named(path)} has the shape {list(value.shape)}, the replay buffer needs {list(tensor.shape)}"
            )
    if len(given) > len(kept):
        extra = next(path for path in given if path not in kept)
        raise MissingKeyError(
            f"{_named(extra)} was not in the first data of the replay buffer, which keeps {_keys(kept)}: "
            "add it to all data, or leave it out with `exclude`"
        )


def _named(path: tuple[str, ...]) -> str:
    return show_key(path) if path else "the tensor"


def _keys(leaves: Mapping[tuple[str, ...], Any]) -> str:
    return ", ".join(repr(join_key(path)) for path in leaves if path) or "a tensor"


def take(data: RowData, index: Any) -> RowData:
    """The rows at an index; for a vector of numbers as `data[index]`, several times cheaper.

    Args:
        data: rows.
        index: whatever stands between brackets; a vector of int64 must be on the device of `data`, and in range.
    """
    if not (
        type(data) is TensorDict
        and isinstance(index, Tensor)
        and index.ndim == 1
        and index.dtype == torch.int64
    ):
        return data[index]
    if data._td_dim_names is not None:
        return data[index]
    return _select(data, index)


def _select(data: TensorDict, index: Tensor) -> TensorDict:
    entries: dict[str, Any] = {}
    for name, value in data._tensordict.items():
        if isinstance(value, Tensor):
            entries[name] = value.index_select(0, index)
        elif type(value) is TensorDict:
            entries[name] = _select(value, index)
        else:
            entries[name] = value[index]
    return flat_td(entries, torch.Size((index.shape[0], *data._batch_size[1:])), data._device)


def elements_at(rows: RowData, dim: int, index: Any, value: Any) -> tuple[tuple[Tensor, ...], Any]:
    """The elements at an index of rows that are along another dimension than the first, and the value of each.

    Args:
        rows: those that are kept, along the first dimension.
        dim: along which dimension rows are where the index counts, and in the value.
        index: whatever stands between brackets.
        value: what is to be there, or what can be expanded to it.

    Returns:
        The index of each element in `rows`, a vector for each dimension up to `dim`; the values, `[elements, …]`.
    """
    counted, others = torch.Size(rows.shape[: dim + 1]), rows.shape[dim + 1 :]
    numbers = torch.arange(counted.numel(), device=rows.device).reshape(counted).transpose(0, dim)
    chosen = numbers[index_on(index, rows.device)]
    value = value.expand(*chosen.shape, *others).reshape(chosen.numel(), *others)
    return torch.unravel_index(chosen.flatten(), counted), value


def rows_first(data: Any, dim: int) -> Any:
    """Data with rows along the first dimension, of data with rows along another; and back.

    Raises:
        ValueError: there is no such dimension.
    """
    if not dim:
        return data
    if data.ndim <= dim:
        raise ValueError(
            f"rows are along dimension {dim} of what comes in (`dim_extend`), [batch, time] for 1; got {list(data.shape)}"
        )
    return data.transpose(0, dim)


_MOST_RANGES = 16
"""More rows that are apart from each other than this are no ranges."""


def row_ranges(index: Any, rows: int) -> list[tuple[int, int]] | None:
    """The rows at an index, among so many, or more: from the first of each pair to before the second; None: any."""
    if isinstance(index, tuple) and index:
        index = index[0]
    if isinstance(index, slice):
        first, stop, step = index.indices(rows)
        return [(first, stop)] if step > 0 else None
    if isinstance(index, list):
        index = torch.as_tensor(index)
    if isinstance(index, Tensor):
        if index.dtype == torch.bool or index.numel() > _MOST_RANGES:
            return None
        numbers = index.flatten().tolist()
    elif isinstance(index, int):
        numbers = [index]
    else:
        return None
    return [(number % rows, number % rows + 1) for number in numbers]


def index_on(index: Any, device: torch.device | None) -> Any:
    """An index whose tensors are on a device."""
    if isinstance(index, tuple):
        return tuple(index_on(part, device) for part in index)
    return index.to(device) if isinstance(index, Tensor) and device is not None else index


def reserve_disk(filename: str | os.PathLike[str], size: int) -> None:
    """Make sure that all of a file can be written, for what writes into it through memory.

    Writing into a memory map on a full disk kills the process (SIGBUS); this fails before.

    Raises:
        OSError: there is no space left on the device.
    """
    if size and hasattr(os, "posix_fallocate"):
        with open(filename, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
