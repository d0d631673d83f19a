"""`PythonRecursion`: generated transforms of recorded data whose behaviour is a class that the user writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor

from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.python import PythonTransform
from specgen_runtime.transforms.python_rows import ReadRows, RecordedRows
from specgen_runtime.transforms.recursion import RecordedTimes, RecursionTransform
from specgen_runtime.typing import NestedKey

__all__ = ["PythonRecursion"]


class PythonRecursion(PythonTransform[Row, InverseRow], RecursionTransform[Row]):
    """Base of generated transforms of recorded data that a user's class is behind; it can't be part of an environment.

    Attributes:
        _python_recorded: what the class is given.
    """

    _backward = False  # the class is told where episodes end, and where data end inside of one
    _python_recorded: ClassVar[RecordedRows]

    @property
    def _python_params(self) -> tuple[str, ...]:
        root = self._python_recorded.root
        return () if root is None else root.params

    def _recur(self, recorded: RecordedTimes, key: Row) -> Mapping[str, Tensor]:
        rows = self._python_recorded
        root = self._found(recorded.now, rows.root, key)
        following = self._found(recorded.following, rows.next, key)
        there = [name for name in rows.optional if getattr(key, name) is not None]
        python = self.object_of_rows(size=recorded.rows)
        outputs = python.outputs("offline", there)
        if not outputs or not (root or following):
            return {}
        # Time is behind the rows, in front of the dimensions of a moment.
        value, dims = next((value, dims) for value, dims in (*root.values(), *following.values()))
        lead = value.shape[: value.ndim - dims - 1]
        times = torch.Size([value.shape[len(lead)], *lead])
        done = recorded.ends(key[0], times).expand(times).movedim(0, -1)
        made = python.offline(
            rows,
            {name: value for name, (value, _) in root.items()},
            {name: value for name, (value, _) in following.items()},
            done,
            there,
        )
        return {name: value.movedim(len(lead), 0) for name, value in zip(outputs, made, strict=True)}

    def _found(
        self, read: Callable[[NestedKey], Tensor], rows: ReadRows | None, key: Row
    ) -> dict[str, tuple[Tensor, int]]:
        """What is read at the root or under ``"next"``, time in front of its dimensions, and how many these are.

        Raises:
            KeyError: an entry is missing there that may not be.
        """
        found: dict[str, tuple[Tensor, int]] = {}
        if rows is None:
            return found
        for name, sizes in zip(rows.record._fields, rows.rows, strict=True):
            place: NestedKey | None = None if name in rows.params else getattr(key, name)
            if place is None:
                continue
            try:
                value = read(place)
            except KeyError:
                if name in rows.optional:
                    continue  # it stands elsewhere
                raise
            found[name] = (value.movedim(0, value.ndim - len(sizes) - 1), len(sizes))
        return found
