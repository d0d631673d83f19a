"""How the observations of many steps are kept: each is copied into a row of an array, and all become tensors at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.values import class_reader, class_representation, classes_reader, other_device
from specgen_runtime.specs import TensorSpec
from specgen_runtime.specs.gymnasium import space_kind
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.values import to_spec_array

__all__ = ["RowFormat", "row_format"]

_FIRST_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How observations of a space are kept until there are many.

    Attributes:
        shape: of one row.
        dtype: of the rows.
        fits: arrays of this dtype and of `shape` are copied as they are; None if every value needs `admit`.
        admit: from any other value of the space to a row. Raises ValueError for what is not in the space, and
            TypeError for what is no numbers.
        finish: from rows `(T, *shape)` to the tensor `(T, ...)` of what the spec holds for them.
    """

    shape: tuple[int, ...]
    dtype: Any
    fits: Any
    admit: Callable[[Any], Any]
    finish: Callable[[Any], Tensor]

    def row(self, observation: Any) -> Any:
        """An observation as a row; the array itself where it fits."""
        alike = type(observation) is np.ndarray and observation.dtype is self.fits
        return observation if alike and observation.shape == self.shape else self.admit(observation)

    def written(self, rows: Any) -> tuple[Any, int]:
        """What observations are written into, which refuses those that do not fit, and how much of it each row takes.

        Row `n` is written by `written[n * width : (n + 1) * width] = observation`. A view of plain memory compares the
        format and the length of vectors by itself, in a third of the time that looking at the array takes.

        Args:
            rows: the array of the rows.

        Raises:
            TypeError, ValueError, BufferError: when written to: the observation does not fit, and needs `admit`.
        """
        if self.fits is not None and len(self.shape) == 1 and rows.size:
            return memoryview(rows.reshape(-1)), self.shape[0]
        return _FittingRows(self, rows), 1

    def rows(self, total: int) -> Any:
        """An array for `total` observations, or for fewer if they are many and large: see `more`."""
        size = math.prod(self.shape) * self.dtype.itemsize
        return self.room(min(total, max(64, _FIRST_BYTES // max(size, 1))))

    def more(self, rows: Any, total: int) -> Any:
        """A larger array that begins with `rows`, all of which are taken."""
        larger = self.room(min(total, 2 * len(rows)))
        larger[: len(rows)] = rows
        return larger

    def room(self, rows: int) -> Any:
        """An array for so many observations."""
        return np.empty((rows, *self.shape), dtype=self.dtype)


class _FittingRows:
    """Rows into which arrays of their dtype and shape can be written, and nothing else."""

    def __init__(self, form: RowFormat, rows: Any) -> None:
        self._rows, self._fits, self._shape = rows, form.fits, form.shape

    def __setitem__(self, place: slice, observation: Any) -> None:
        if (
            type(observation) is not np.ndarray
            or observation.dtype is not self._fits
            or observation.shape != self._shape
        ):
            raise ValueError("the observation does not fit")
        self._rows[place] = observation


def row_format(space: Any, spec: TensorSpec) -> RowFormat | None:
    """The format for one space and its spec; None if not every value is a tensor of one shape, made element by element."""
    kind = space_kind(space)
    device = other_device(spec)
    if isinstance(spec, Stacked):
        return None

    def placed(array: Any) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor if device is None else tensor.to(device)

    if kind in ("Box", "MultiBinary"):
        shape, dtype = tuple(space.shape), spec.dtype
        assert dtype is not None

        def admit(value: Any) -> Any:
            tensor = to_spec_array(value, dtype, "what Gymnasium gives")
            if tensor.shape != shape:
                raise ValueError(
                    f"Gymnasium gave a value of shape {list(tensor.shape)}, its space says {list(shape)}"
                )
            return tensor.numpy()

        numpy_dtype = torch.empty((), dtype=dtype).numpy().dtype
        return RowFormat(shape, numpy_dtype, numpy_dtype, admit, placed)
    if kind not in ("Discrete", "MultiDiscrete"):
        return None
    several = kind == "MultiDiscrete"
    represent = class_representation(space.nvec if several else np.asarray(space.n), spec)
    shape, read = (tuple(space.shape), classes_reader(space)) if several else ((), class_reader(space))
    return RowFormat(shape, np.dtype(np.int64), None, read, lambda rows: placed(represent(rows)))
