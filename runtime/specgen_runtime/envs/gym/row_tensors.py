"""`RowTensors` and `NewTensors`: the tensors of a step, made for several steps at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.typing import Array

__all__ = ["NewRow", "NewTensors", "RowEntry", "RowTensors"]

_T = TypeVar("_T")

_MOST_STEPS = 16
_MOST_BYTES = 1024
"""Larger entries are not made ahead: whoever keeps that of one step keeps the memory of those that were made with it."""


_REPLACED = torch.empty(0)
"""Keeps the place of a large entry, whose tensor is known when its value is."""


class RowEntry(NamedTuple):
    """An entry of what one environment gives.

    Attributes:
        shape: of its tensors.
        dtype: of their arrays.
        is_number: whether its values are NumPy's numbers, which stand for arrays of shape `(1,)`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_number: bool = False

    @property
    def nbytes(self) -> int:
        """The size of one."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_large(self) -> bool:
        """Whether it is worth memory of its own."""
        return self.nbytes > _MOST_BYTES


_Column: TypeAlias = "Array | dict[int, Array]"
"""The values of an entry at several steps, by their places: rows of one array; a large one has the arrays of its own."""

_Read: TypeAlias = tuple[str, _Column, int, int]
"""What the next step reads: its key, its column, where the first tensor of that has its memory, and how far apart they are."""

NewRow: TypeAlias = tuple[dict[str, Tensor], Sequence[_Column], Sequence[_Read], int]
"""The tensors of one step by key, the columns of their values in the same order, what is read of them next, and their place."""


class _MadeAhead(ABC, Generic[_T]):
    """Makes tensors for several steps at once: rows of one array, each with a storage of its own.

    Making the few small tensors of a step takes longer than computing what is in them, and half as long in one go
    with those of the steps to come.
    """

    def __init__(self) -> None:
        self._made: list[_T] = []
        self._steps = 1
        self._of_inference = False

    def take(self) -> _T:
        """What one step needs, whose values are still to be written."""
        of_inference = torch.is_inference_mode_enabled()
        if not self._made or of_inference is not self._of_inference:
            self._of_inference = of_inference
            self._made = self._make(self._steps)
            self._steps = min(2 * self._steps, _MOST_STEPS)
        return self._made.pop()

    @abstractmethod
    def _make(self, steps: int) -> list[_T]:
        """What so many steps need."""


def _rows(form: RowEntry, steps: int) -> tuple[Array, list[Tensor]]:
    """An array of the values that an entry has at several steps, and the tensors of its rows."""
    whole = np.empty((steps, *form.shape), form.dtype)
    rows = list(whole) if form.shape else [whole[at, ...] for at in range(steps)]
    return whole, list(map(torch.from_numpy, rows))


class NewTensors(_MadeAhead[Tensor]):
    """Makes tensors of one entry.

    Args:
        form: the entry.
    """

    def __init__(self, form: RowEntry) -> None:
        super().__init__()
        self._form = form

    def _make(self, steps: int) -> list[Tensor]:
        return _rows(self._form, steps)[1]


class RowTensors(_MadeAhead[NewRow]):
    """Makes the tensors of all entries of a step.

    Args:
        forms: the entries, by key.
        read: the keys of those that the next step reads.
    """

    def __init__(self, forms: Mapping[str, RowEntry], read: Sequence[str] = ()) -> None:
        super().__init__()
        self._forms = dict(forms)
        places = {key: place for place, key in enumerate(forms)}
        self._read = [(key, places[key]) for key in read]
        self._large = {key: place for key, place in places.items() if forms[key].is_large}

    def written(self, values: Mapping[str, Any]) -> NewRow:
        """The tensors of some values.

        Args:
            values: of all entries, in their order. Large arrays become tensors as they are.
        """
        row = self._with_large(self.take(), values) if self._large else self.take()
        _, columns, _, at = row
        for column, value in zip(columns, values.values(), strict=True):
            column[at] = value
        return row

    def _with_large(self, row: NewRow, values: Mapping[str, Any]) -> NewRow:
        entries, columns, reads, at = row[0], list(row[1]), list(row[2]), row[3]
        for key, place in self._large.items():
            columns[place], entries[key] = {}, torch.from_numpy(values[key])
        for n, (key, place) in enumerate(self._read):
            if key in self._large:
                reads[n] = key, columns[place], entries[key].data_ptr(), 0
        return entries, columns, reads, at

    def _make(self, steps: int) -> list[NewRow]:
        columns: list[_Column] = []
        tensors: list[list[Tensor]] = []
        for form in self._forms.values():
            if form.is_large:
                columns.append({})
                tensors.append([_REPLACED] * steps)
            else:
                whole, rows = _rows(form, steps)
                columns.append(whole[:, 0] if form.is_number else whole)
                tensors.append(rows)
        reads = [
            (key, columns[place], tensors[place][0].data_ptr(), self._forms[key].nbytes)
            for key, place in self._read
        ]
        entries = map(dict, map(zip, repeat(self._forms), zip(*tensors, strict=True)))
        return list(zip(entries, repeat(columns), repeat(reads), range(steps), strict=False))
