"""`RowStatistics`: what a transform of a chain has learned, for steps that are computed by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.generated.learning import LearnedStatistics
from specgen_runtime.transforms.new_rows import OneRow
from specgen_runtime.typing import Array, NestedKey

__all__ = ["RowStatistics"]


class RowStatistics:
    """`LearnedStatistics` of one environment, whose values are NumPy's.

    A statistic of one number is one of NumPy's numbers, any other an array, which nobody may change.

    Args:
        learned: the same for tensors.
    """

    def __init__(self, learned: LearnedStatistics) -> None:
        self._learned, self._transform = learned, learned.transform
        self._new_rows = OneRow()
        self._known: dict[NestedKey, tuple[tuple[str, str, bool], ...]] = {}

    def update(self, key: NestedKey, *seen: Any, again: bool = False) -> tuple[Any, ...]:
        """See `LearnedStatistics.update`. What NumPy is not known to compute alike, torch does."""
        transform = self._transform
        statistics, updated = transform._statistics, transform._updated_row
        if statistics.frozen:
            return self.now(key)
        if updated is None:
            return _values(self._learned.update(key, *map(_tensor, seen), again=again))
        with statistics.locked():
            names, before = self._names_of(key), self.now(key)
            held = dict(zip([name for name, _, _ in names], before, strict=True))
            made = []
            for (_, place, squeezed), old, new in zip(
                names, before, updated(held, self._new_rows, *seen), strict=True
            ):
                value = _kept(new, old, seen)
                array = np.asarray(value)
                statistics.put_array(place, array[..., None] if squeezed else array)
                made.append(value)
            return tuple(made)

    def read_and_update(self, key: NestedKey, *seen: Any, again: bool = False) -> tuple[Any, ...]:
        """See `LearnedStatistics.read_and_update`."""
        return _values(self._learned.read_and_update(key, *map(_tensor, seen), again=again))

    def now(self, key: NestedKey) -> tuple[Any, ...]:
        """See `LearnedStatistics.now`."""
        statistics, names = self._transform._statistics, self._names_of(key)
        if statistics.shared:
            return _values(self._learned.now(key))
        return tuple([_value(statistics.array(place), squeezed) for _, place, squeezed in names])

    def _names_of(self, key: NestedKey) -> tuple[tuple[str, str, bool], ...]:
        """The statistics of an entry: their names, those in state dicts, and whether a trailing 1 is not counted.

        Raises:
            RuntimeError: one has no value yet.
        """
        found = self._known.get(key)
        if found is None:
            squeezed = self._learned.squeezed(key)
            buffers = self._transform._buffers_of(key)
            found = tuple([(spec.name, place, spec.name in squeezed) for spec, place in buffers])
            self._known[key] = found
        return found


def _kept(value: Any, old: Any, seen: tuple[Any, ...]) -> Any:
    """What is kept of a new value: of the old one's dtype and shape, in no memory that was seen, which may be written to."""
    if type(value) is not type(old) or value.dtype is not old.dtype or value.shape != old.shape:
        array = np.empty(old.shape, old.dtype)
        array[...] = value
        return array[()]
    return value.copy() if value.base is not None or any(value is one for one in seen) else value


def _value(array: Array, squeezed: bool) -> Any:
    return (array.squeeze(-1) if squeezed else array)[()]


def _values(tensors: tuple[Tensor, ...]) -> tuple[Any, ...]:
    return tuple([tensor.numpy()[()] for tensor in tensors])


def _tensor(value: Any) -> Tensor:
    """An entry; what is stored as `(1,)` is given as a number."""
    return torch.from_numpy(value if isinstance(value, np.ndarray) else np.array((value,)))
