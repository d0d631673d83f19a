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


_Expected: TypeAlias = tuple[str, Tensor, int, Array, Any]
"""A tensor that the next step is expected to read: its key, itself, where its values are, the array of that memory, and
where in the array the value is."""

NewRow: TypeAlias = tuple[dict[str, Tensor], tuple[Array, ...], tuple[_Expected, ...]]
"""The tensors of one step by key, the arrays in whose memory they are in the same order, and what is read of them next."""


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
        self._read = [(key, list(forms).index(key)) for key in read]
        self._places = [0 if form.is_number else ... for form in forms.values()]
        self._large = frozenset(at for at, form in enumerate(forms.values()) if form.is_large)
        self._large_read = [
            (place, key, at) for place, (key, at) in enumerate(self._read) if at in self._large
        ]
        self._made: list[NewRow] = []
        self._steps = 1
        self._of_inference = False

    def take(self) -> NewRow:
        """The tensors of one step, whose values are still to be written."""
        of_inference = torch.is_inference_mode_enabled()
        if not self._made or of_inference is not self._of_inference:
            self._of_inference = of_inference
            self._make()
        return self._made.pop()

    def written(self, values: Mapping[str, Any]) -> NewRow:
        """The tensors of some values.

        Args:
            values: of all entries, in their order. Large arrays become tensors as they are.
        """
        row = self.take()
        if self._large:
            return self._with_large(row, values)
        for array, place, value in zip(row[1], self._places, values.values(), strict=True):
            array[place] = value
        return row

    def _with_large(self, row: NewRow, values: Mapping[str, Any]) -> NewRow:
        entries, arrays, expected = row[0], list(row[1]), list(row[2])
        for at, (key, value) in enumerate(values.items()):
            if at in self._large:
                arrays[at], entries[key] = value, torch.from_numpy(value)
            else:
                arrays[at][self._places[at]] = value
        for place, key, at in self._large_read:
            tensor = entries[key]
            expected[place] = (key, tensor, tensor.data_ptr(), arrays[at], ...)
        return entries, tuple(arrays), tuple(expected)

    def _make(self) -> None:
        count, self._steps = self._steps, min(2 * self._steps, _MOST_STEPS)
        arrays: list[list[Array]] = []
        for form in self._forms.values():
            if form.is_large:  # one for all keeps the place: none of them is used
                arrays.append([np.empty(0, form.dtype)] * count)
            else:
                whole = np.empty((count, *form.shape), form.dtype)
                arrays.append(list(whole) if form.shape else [whole[at, ...] for at in range(count)])
        self._made = self._joined([list(map(torch.from_numpy, rows)) for rows in arrays], arrays)

    def _joined(self, tensors: Sequence[Sequence[Tensor]], arrays: Sequence[Sequence[Array]]) -> list[NewRow]:
        """The rows of some steps, of the tensors and arrays that each key has at them."""
        rows = len(tensors[0])
        expected = [
            list(
                zip(
                    repeat(key, rows),
                    tensors[at],
                    map(Tensor.data_ptr, tensors[at]),
                    arrays[at],
                    repeat(self._places[at], rows),
                    strict=True,
                )
            )
            for key, at in self._read
        ]
        entries = [dict(zip(self._forms, made, strict=True)) for made in zip(*tensors, strict=True)]
        nexts = zip(*expected, strict=True) if expected else repeat((), rows)
        return list(zip(entries, zip(*arrays, strict=True), nexts, strict=True))
