"""Entries of recorded data before they are read: what is known of them, and which are taken for others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.reported import ReportedError

__all__ = [
    "Column",
    "RecordedDataError",
    "RecordedSource",
    "as_wanted",
    "dtype_of",
    "tensor_of",
    "truth_values",
]

Key = tuple[str, ...]


class RecordedDataError(ReportedError, ValueError):
    """Recorded data that are not what a training reads of them."""


@dataclass(frozen=True)
class Column:
    """An entry of recorded data.

    Attributes:
        dtype: of what `read` gives.
        shape: behind the dimension of transitions.
        read: gives it, `[frames, *shape]`.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    read: Callable[[], Tensor]


class RecordedSource(ABC):
    """Recorded data at a place: a context manager, since files have to be closed.

    Attributes:
        path: where they are.
        frames: how many transitions there are, once `columns` has been asked.
        names: what they hold, for messages.
        why_none: what to say where they hold none.
        device: of what is read.
        converts: whether values of neighbouring dtypes and shapes are taken for those of a training.
    """

    converts: ClassVar[bool] = True

    def __init__(self, path: Path, close: Callable[[], object] = lambda: None) -> None:
        self.path = path
        self._close = close
        self.frames = 0
        self.names: Collection[str] = ()
        self.why_none = ""
        self.device: torch.device | None = torch.device("cpu")

    @abstractmethod
    def columns(self, wanted: list[Key], named: Mapping[Key, Key]) -> dict[Key, Column | str]:
        """The entries of these keys, or what to say of those that are missing.

        Args:
            wanted: what is read, by the keys of a training.
            named: what entries are called there, where that is not usual.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()


def tensor_of(array: Any) -> Tensor:
    """The rows of an array, in the byte order of this machine."""
    rows = np.asarray(array)
    return torch.from_numpy(np.ascontiguousarray(rows.astype(rows.dtype.newbyteorder("="), copy=False)))


def dtype_of(found: np.dtype[np.generic], what: str) -> torch.dtype:
    """The dtype of a tensor of such an array.

    Raises:
        RecordedDataError: there is none; the message says it of `what`.
    """
    try:
        return torch.from_numpy(np.empty(0, found.newbyteorder("="))).dtype
    except TypeError:
        raise RecordedDataError(f"{what} is of {found}, which is no number") from None


def as_wanted(column: Column, dtype: torch.dtype, shape: tuple[int, ...], said: str) -> Column:
    """A column as a training wants it, where that loses nothing but digits of a float; else as it is.

    Floats are rounded to another width, whole numbers widened to int64, numbers that are all 0 or 1 taken for truth values; and
    one number a row is one of `[1]`. Where that is not so, `read` raises a RecordedDataError that says it of `said`.
    """
    taken = column
    if column.shape != shape and (*column.shape, 1) == shape:
        taken = replace(taken, shape=shape, read=lambda: column.read().unsqueeze(-1))
    if column.dtype == dtype:
        return taken
    floats = column.dtype.is_floating_point and dtype.is_floating_point
    whole = dtype == torch.int64 and not (column.dtype.is_floating_point or column.dtype == torch.bool)
    read = taken.read
    if whole and column.dtype == torch.uint64:
        return replace(taken, dtype=dtype, read=lambda: _signed(read(), said))
    if floats or whole:
        return replace(taken, dtype=dtype, read=lambda: read().to(dtype))
    if dtype == torch.bool:
        return replace(taken, dtype=dtype, read=lambda: truth_values(read(), said))
    return taken


def _signed(found: Tensor, said: str) -> Tensor:
    """Numbers of uint64 as such of int64."""
    made = found.to(torch.int64)
    if (made < 0).any():
        raise RecordedDataError(f"{said} has numbers that int64 does not hold")
    return made


def truth_values(found: Tensor, said: str) -> Tensor:
    """Numbers that are all 0 or 1 as truth values.

    Raises:
        RecordedDataError: one is another; the message says it of `said`.
    """
    made = found != 0
    if not torch.equal(made.to(found.dtype), found):
        other = found[made.to(found.dtype) != found].flatten()[0].item()
        raise RecordedDataError(f"{said} must be 0 or 1, as truth values are, got {other}")
    return made
