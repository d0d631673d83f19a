"""Reading the arguments that every spec takes: shapes, devices, dtypes, counts and indices.

Each function turns what a user may write into one canonical form, or says what was wrong with it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import torch

from specgen_runtime.typing import DEVICE_TYPING, IndexLike, ShapeLike

__all__ = [
    "as_count",
    "as_device",
    "as_domain_dtype",
    "as_dtype",
    "as_index",
    "as_size",
    "integer_range",
    "size_from_args",
]

_DTYPES = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    }
)


def as_size(shape: ShapeLike, name: str = "shape", *, variable: bool = False) -> torch.Size:
    """Read a shape; an integer is one dimension.

    Args:
        shape: what was given.
        name: the argument, for the message.
        variable: allow -1, for dimensions of any size.

    Raises:
        TypeError: if it is not an integer or a sequence of integers.
        ValueError: if a dimension is negative.
    """
    if isinstance(shape, torch.Size):
        size = shape
    else:
        try:
            # The usual types first: asking for a Sequence takes longer.
            entries = shape if isinstance(shape, (tuple, list, Sequence)) else (shape,)
            size = torch.Size(tuple(map(operator.index, entries)))
        except TypeError:
            raise TypeError(f"{name} must be an integer or a sequence of integers, got {shape!r}") from None
    if size and min(size) < (-1 if variable else 0):
        allowed = "no negative dimension (but -1 for a variable one)" if variable else "no negative dimension"
        raise ValueError(f"{name} must have {allowed}, got {tuple(size)}")
    return size


def size_from_args(args: tuple[int | Sequence[int], ...], name: str = "shape") -> tuple[int, ...]:
    """Read a shape that is written either as `f(2, 3)` or as `f((2, 3))`; -1 is kept.

    Raises:
        TypeError: if an entry is not an integer.
    """
    if len(args) == 1 and isinstance(args[0], Sequence):
        args = tuple(args[0])
    try:
        return tuple(operator.index(entry) for entry in args)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be made of integers, got {args!r}") from None


def as_device(device: DEVICE_TYPING | None) -> torch.device:
    """Read a device; None is torch's default device, an accelerator always gets its index, a CPU never.

    Raises:
        ValueError: if there is no such device.
    """
    if device is None:
        return torch.empty(0).device  # which is faster to ask than torch.get_default_device
    if isinstance(device, torch.device) and device.type == "cpu":
        return device if device.index is None else torch.device("cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        hint = (
            f" (an integer device is an accelerator's index; sizes go together: shape=(…, {device}))"
            if isinstance(device, int)
            else ""
        )
        raise ValueError(f"device={device!r} is not a device of this machine{hint}: {error}") from None
    if found.type == "cpu":
        return torch.device("cpu")  # tensors of "cpu:0" say that they are on "cpu"
    if found.type == "cuda":
        count = torch.cuda.device_count()
        if found == torch.device("cuda"):
            found = torch.device("cuda", torch.cuda.current_device() if count else 0)
        elif isinstance(device, int) and device >= count:
            raise ValueError(f"device={device} is accelerator number {device}, but this machine has {count}")
    return found


def as_dtype(dtype: torch.dtype | None, default: torch.dtype | None = None) -> torch.dtype:
    """Read a dtype; None is `default`, or torch's default dtype.

    Raises:
        TypeError: if it is not a real-number torch dtype that specs support.
    """
    if dtype is None:
        return default if default is not None else torch.get_default_dtype()
    if dtype not in _DTYPES:
        names = ", ".join(sorted(map(str, _DTYPES)))
        raise TypeError(f"dtype must be one of {names}, got {dtype!r}")
    return dtype


def as_domain_dtype(dtype: torch.dtype | None, domain: str | None, kind: str) -> torch.dtype:
    """Read the dtype of a spec that takes those of one domain only.

    Args:
        dtype: what was given; None is torch's default dtype, int64 for discrete specs.
        domain: `"continuous"` for floats, `"discrete"` for integers and bools, None for all.
        kind: the class of the spec, for the message.

    Raises:
        TypeError: if it is a dtype of the other domain.
    """
    found = as_dtype(dtype, torch.int64 if domain == "discrete" else None)
    if domain is not None and found.is_floating_point != (domain == "continuous"):
        needed = "a floating-point dtype" if domain == "continuous" else "an integer dtype or bool"
        raise TypeError(f"{kind} needs {needed}, got {found}")
    return found


def as_count(value: int, name: str, smallest: int = 1) -> int:
    """Read a whole number that is at least `smallest`.

    Raises:
        TypeError: if it is not a whole number.
        ValueError: if it is too small.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if count < smallest:
        raise ValueError(f"{name} must be at least {smallest}, got {count}")
    return count


def integer_range(dtype: torch.dtype) -> tuple[int, int]:
    """Smallest and largest value of an integer (or bool) dtype."""
    if dtype == torch.bool:
        return 0, 1
    info = torch.iinfo(dtype)
    return info.min, info.max


_Item = int | slice | torch.Tensor | None


def as_index(index: IndexLike, shape: Sequence[int], what: str) -> tuple[_Item, ...]:
    """Write an index out in full over dimensions of `shape`, so that later dimensions are left alone.

    Ellipses and missing trailing entries become explicit slices; lists, ranges and arrays become
    tensors on the CPU (which may index a tensor on any device). Within a variable dimension all places are
    alike, so that its indices become 0.

    Args:
        index: what stood between the brackets.
        shape: the dimensions that may be indexed.
        what: the indexed spec, for the message.

    Raises:
        IndexError: if there are too many indices, two ellipses, an entry of another kind, or a part of a
            variable dimension, whose size is not known.
    """
    ndim = len(shape)
    given = index if isinstance(index, tuple) else (index,)
    front: list[_Item] = []
    back: list[_Item] = []
    found_ellipsis = False
    for entry in given:
        if entry is Ellipsis:
            if found_ellipsis:
                raise IndexError("an index can hold only one ellipsis ('...')")
            found_ellipsis = True
            continue
        (back if found_ellipsis else front).append(_as_index_item(entry))
    used = sum(_dims_used(item) for item in (*front, *back))
    if used > ndim:
        raise IndexError(f"too many indices for {what}: {used} given, {ndim} dimensions can be indexed")
    full = (*front, *(slice(None),) * (ndim - used), *back)
    backwards = any(isinstance(item, slice) and (item.step or 1) < 0 for item in full)
    return _over_sizes(full, shape, what) if backwards or -1 in shape else full


def _over_sizes(index: tuple[_Item, ...], shape: Sequence[int], what: str) -> tuple[_Item, ...]:
    """Write out what depends on the sizes: slices that run backwards, and indices of variable dimensions."""
    changed: list[_Item] = []
    dim = 0
    for item in index:
        used = _dims_used(item)
        if -1 in shape[dim : dim + used]:
            if isinstance(item, int):
                item = 0
            elif isinstance(item, torch.Tensor) and item.dtype != torch.bool:
                item = torch.zeros_like(item)
            elif item != slice(None):
                raise IndexError(f"cannot take a part of dimension {dim} of {what}: its size is variable")
        elif isinstance(item, slice) and (item.step or 1) < 0:
            item = torch.tensor(range(*item.indices(shape[dim])), dtype=torch.int64)
        changed.append(item)
        dim += used
    if (
        sum(isinstance(item, torch.Tensor) for item in changed)
        > sum(isinstance(item, torch.Tensor) for item in index)
        > 0
    ):
        raise IndexError(f"cannot index {what} with a backward slice and with tensors or lists at once")
    return tuple(changed)


def _as_index_item(entry: object) -> _Item:
    if entry is None or isinstance(entry, slice):
        return entry
    try:
        if isinstance(entry, torch.Tensor):
            item = entry.cpu()
        elif isinstance(entry, list | tuple | range | np.ndarray):
            item = torch.as_tensor(np.asarray(entry))
            if item.numel() == 0 and not isinstance(entry, np.ndarray):
                item = item.long()
        elif isinstance(entry, bool | np.bool_):
            raise TypeError
        else:
            return operator.index(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # texts, or lists of different lengths
        raise IndexError(f"cannot index a spec with {entry!r}") from None
    if item.is_floating_point() or item.is_complex():
        raise IndexError(f"an index tensor must hold integers or bools, got {item.dtype}")
    return item


def _dims_used(item: _Item) -> int:
    if item is None:
        return 0
    if isinstance(item, torch.Tensor) and item.dtype == torch.bool:
        return item.ndim
    return 1
