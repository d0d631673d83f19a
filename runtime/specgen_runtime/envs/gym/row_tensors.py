"""`RowTensors`: the tensors of a step, made for several steps at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.typing import Array

__all__ = ["NewRow", "RowEntry", "RowTensors"]

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


class RowTensors:
    """Makes the tensors of a step: those of a key are rows of one array, each with a storage of its own.

    Making the few small tensors of a step takes longer than computing what is in them, and half as long in one go
    with those of the steps to come.

    Args:
        forms: the entries, by key.
        read: the keys of those that the next step reads.
    """

    def __init__(self, forms: Mapping[str, RowEntry], read: Sequence[str] = ()) -> None:
        self._forms = dict(forms)
        places = {key: place for place, key in enumerate(forms)}
        self._read = [(key, places[key]) for key in read]
        self._large = {key: place for key, place in places.items() if forms[key].is_large}
        self._made: list[dict[str, Tensor]] = []
        self._columns: list[_Column] = []
        self._reads: list[_Read] = []
        self._steps = 1
        self._of_inference = False

    def take(self) -> NewRow:
        """The tensors of one step, whose values are still to be written."""
        of_inference = torch.is_inference_mode_enabled()
        if not self._made or of_inference is not self._of_inference:
            self._of_inference = of_inference
            self._make()
        entries = self._made.pop()
        return entries, self._columns, self._reads, len(self._made)

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

    def _make(self) -> None:
        count, self._steps = self._steps, min(2 * self._steps, _MOST_STEPS)
        tensors: list[list[Tensor]] = []
        self._columns, self._reads = [], []
        for form in self._forms.values():
            whole = np.empty((0 if form.is_large else count, *form.shape), form.dtype)
            self._columns.append(whole[:, 0] if form.is_number else whole)
            if form.is_large:
                tensors.append([_REPLACED] * count)
            else:
                rows = list(whole) if form.shape else [whole[at, ...] for at in range(count)]
                tensors.append(list(map(torch.from_numpy, rows)))
        for key, place in self._read:
            column = self._columns[place]
            assert isinstance(column, np.ndarray)
            self._reads.append((key, column, tensors[place][0].data_ptr(), column.strides[0]))
        self._made = list(map(dict, map(zip, repeat(self._forms), zip(*tensors, strict=True))))
