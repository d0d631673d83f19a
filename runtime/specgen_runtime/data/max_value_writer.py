"""`TensorDictMaxValueWriter`: keeps the rows that rank highest, such as the best trajectories."""

from __future__ import annotations

import heapq
import math
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, is_tensor_collection
from torch import Tensor

from specgen_runtime.data.rows import RowData
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.writers import Writer
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.typing import NestedKey

__all__ = ["TensorDictMaxValueWriter"]

_REDUCTIONS = ("max", "min", "mean", "median", "sum")


class TensorDictMaxValueWriter(Writer):
    """Keeps the rows with the largest values of an entry: a new row takes the place of the least one if it is larger.

    Args:
        rank_key: the entry; None: `("next", "reward")`.
        reduction: what becomes of several numbers in a row, such as those of a trajectory's steps: `"max"`, `"min"`,
            `"mean"`, `"median"` (the lower one of two) or `"sum"`.

    Raises:
        ValueError: another `reduction`; a storage in which several dimensions count elements.
    """

    def __init__(self, rank_key: NestedKey | None = None, reduction: str = "sum") -> None:
        super().__init__()
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
        self.rank_key: NestedKey = ("next", "reward") if rank_key is None else rank_key
        self.reduction = reduction
        self._best: list[tuple[float, int]] = []  # a heap of values and their rows, the least first
        self._write_count = 0

    def register_storage(self, storage: Storage) -> None:
        """Say which storage is written; see `Writer.register_storage`."""
        if storage.ndim > 1:
            raise ValueError(
                f"TensorDictMaxValueWriter ranks rows, and the storage counts {storage.ndim} dimensions: keep a trajectory"
                " in each row, with ndim=1"
            )
        super().register_storage(storage)

    def extend(self, data: RowData) -> Tensor:
        """Write those of a batch of rows that rank high enough.

        Returns:
            The row of each, int64 `[rows]`; -1 for those that are not kept.

        Raises:
            KeyError: the entry is missing.
            TypeError: the data have no keys.
            ValueError: a value is NaN.
        """
        values = self._values(data)
        best, written = list(self._best), 0
        kept: dict[int, int] = {}
        for number, value in enumerate(values):
            if len(best) < self.storage.max_size:
                row = len(best)
                heapq.heappush(best, (value, row))
            elif value > best[0][0]:
                row = best[0][1]
                heapq.heapreplace(best, (value, row))
            else:
                continue
            kept[row] = number
            written += 1
        device = self.storage.device
        index = torch.full((len(values),), -1, device=device)
        if kept:
            rows, numbers = (torch.tensor(list(each), device=device) for each in (kept, kept.values()))
            self.storage.set(rows, data[numbers.to(data.device)])
            self._stamp(rows, self.storage.max_size)
            index[numbers] = rows
        self._best = best
        self._write_count += written
        return index

    def written(self, index: Tensor) -> Tensor:
        """The elements that were kept; see `Writer.written`."""
        return index[index >= 0]

    def _values(self, data: RowData) -> list[float]:
        """What each row is ranked by."""
        if not is_tensor_collection(data):
            raise TypeError(
                f"TensorDictMaxValueWriter ranks rows by an entry, got {type(data).__name__}: use tensordicts"
            )
        if isinstance(data, LazyStackedTensorDict):
            values = [value for row in data.unbind(0) for value in self._reduced(row.unsqueeze(0))]
        else:
            values = self._reduced(data)
        for number, value in enumerate(values):
            if math.isnan(value):
                raise ValueError(f"{show_key(self.rank_key)} of row {number} is NaN, which has no rank")
        return values

    def _reduced(self, data: RowData) -> list[float]:
        entry: Tensor | None = data.get(self.rank_key, None)
        if entry is None:
            raise MissingKeyError(f"{show_key(self.rank_key)} is missing in the data, which are ranked by it")
        numbers = entry.detach().reshape(len(data), -1)
        if numbers.shape[1] > 1:
            if self.reduction == "mean" and not numbers.is_floating_point():
                numbers = numbers.to(torch.get_default_dtype())
            reduced = getattr(numbers, self.reduction)(1)
            numbers = reduced if isinstance(reduced, Tensor) else reduced.values
        values: list[float] = numbers.flatten().tolist()
        return values

    def _empty(self, empty_write_count: bool = True) -> None:
        self._best = []
        if empty_write_count:
            self._write_count = 0

    def state_dict(self) -> dict[str, Any]:
        """The values of rows, how many rows were written in all, and the generations of rows."""
        return {**super().state_dict(), "_best": list(self._best), "_write_count": self._write_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another writer stood."""
        super().load_state_dict(state_dict)
        self._best = list(state_dict["_best"])
        self._write_count = state_dict["_write_count"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank_key={self.rank_key!r}, reduction={self.reduction!r})"
