"""`RowTensors`: the tensors of a step, made for several steps at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.typing import Array

__all__ = ["RowEntry", "RowTensors"]

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


class RowTensors:
    """Makes the tensors of a step: those of a key are rows of one array, each with a storage of its own.

    Making the few small tensors of a step takes longer than computing what is in them, and half as long in one go
    with those of the steps to come.

    Args:
        forms: the entries, by key.
    """

    def __init__(self, forms: Mapping[str, RowEntry]) -> None:
        self._forms = dict(forms)
        self._places = [0 if form.is_number else ... for form in forms.values()]
        self._large = any(map(_is_large, forms.values()))
        self._made: list[tuple[dict[str, Tensor], tuple[Array, ...]]] = []
        self._steps = 1
        self._of_inference = False

    def take(self) -> tuple[dict[str, Tensor], tuple[Array, ...]]:
        """The tensors of one step, whose values are still to be written, and the arrays in whose memory they are."""
        of_inference = torch.is_inference_mode_enabled()
        if not self._made or of_inference is not self._of_inference:
            self._of_inference = of_inference
            self._make()
        return self._made.pop()

    def written(self, values: Mapping[str, Any]) -> tuple[dict[str, Tensor], tuple[Array, ...]]:
        """The tensors of some values, and the arrays in whose memory they are.

        Args:
            values: of all entries, in their order. Large arrays become tensors as they are.
        """
        step = self.take()
        if self._large:
            return self._with_large(*step, values)
        for array, place, value in zip(step[1], self._places, values.values(), strict=True):
            array[place] = value
        return step

    def _with_large(
        self, entries: dict[str, Tensor], arrays: tuple[Array, ...], values: Mapping[str, Any]
    ) -> tuple[dict[str, Tensor], tuple[Array, ...]]:
        written = list(arrays)
        for at, (key, value) in enumerate(values.items()):
            if _is_large(self._forms[key]):
                written[at], entries[key] = value, torch.from_numpy(value)
            else:
                arrays[at][self._places[at]] = value
        return entries, tuple(written)

    def _make(self) -> None:
        count, self._steps = self._steps, min(2 * self._steps, _MOST_STEPS)
        arrays, tensors = [], []
        for form in self._forms.values():
            if _is_large(form):  # one for all keeps the place: none of them is used
                rows = [np.empty(0, form.dtype)] * count
            else:
                whole = np.empty((count, *form.shape), form.dtype)
                rows = [whole[at, ...] for at in range(count)]
            arrays.append(rows)
            tensors.append(list(map(torch.from_numpy, rows)))
        self._made = [
            (dict(zip(self._forms, made, strict=True)), places)
            for made, places in zip(zip(*tensors, strict=True), zip(*arrays, strict=True), strict=True)
        ]


def _is_large(form: RowEntry) -> bool:
    return math.prod(form.shape) * form.dtype.itemsize > _MOST_BYTES
