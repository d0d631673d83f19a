"""Room for the observations of many steps: each is copied into a row, and all become tensors at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.values import class_reader, class_representation, classes_reader
from specgen_runtime.specs import TensorSpec
from specgen_runtime.specs.gymnasium import space_kind
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.values import to_spec_array

__all__ = ["SlabPlan", "slab_plan"]

_FIRST_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class SlabPlan:
    """How observations of a space are kept until there are many.

    Attributes:
        shape: of one row.
        dtype: of the rows.
        fits: arrays of this dtype and of `shape` are copied as they are; None if every value needs `admit`.
        admit: from any other value of the space to a row. Raises ValueError for what is not in the space, and
            TypeError for what is no numbers.
        finish: from rows `(T, *shape)` to the tensor `(T, ...)` of what the spec holds for them.
        first_rows: how many rows there are room for at first.
    """

    shape: tuple[int, ...]
    dtype: Any
    fits: Any
    admit: Callable[[Any], Any]
    finish: Callable[[Any], Tensor]
    first_rows: int = field(init=False)

    def __post_init__(self) -> None:
        size = int(np.prod(self.shape)) * int(np.dtype(self.dtype).itemsize)
        object.__setattr__(self, "first_rows", max(64, _FIRST_BYTES // max(size, 1)))

    def rows(self, total: int) -> Any:
        """An array for `total` observations, or for fewer if they are many and large: see `more`."""
        return np.empty((min(total, self.first_rows), *self.shape), dtype=self.dtype)

    def more(self, rows: Any, total: int) -> Any:
        """A larger array that begins with `rows`, all of which are taken."""
        larger = np.empty((min(total, 2 * len(rows)), *self.shape), dtype=self.dtype)
        larger[: len(rows)] = rows
        return larger


def slab_plan(space: Any, spec: TensorSpec) -> SlabPlan | None:
    """Plan for one space and its spec; None if not every value is a tensor of one shape, made element by element."""
    kind = space_kind(space)
    device = spec.device
    if isinstance(spec, Stacked):
        return None

    def placed(array: Any) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor if device is None else tensor.to(device)

    shape = tuple(space.shape) if kind in ("Box", "MultiBinary", "MultiDiscrete") else ()
    if kind in ("Box", "MultiBinary"):
        dtype = spec.dtype
        assert dtype is not None

        def admit(value: Any) -> Any:
            tensor = to_spec_array(value, dtype, "what Gymnasium gives")
            if tensor.shape != shape:
                raise ValueError(
                    f"Gymnasium gave a value of shape {list(tensor.shape)}, its space says {list(shape)}"
                )
            return tensor.numpy()

        numpy_dtype = torch.empty((), dtype=dtype).numpy().dtype
        return SlabPlan(shape, numpy_dtype, numpy_dtype, admit, placed)
    if kind == "Discrete":
        represent = class_representation(np.asarray(space.n), spec)
        return SlabPlan(
            (), np.dtype(np.int64), None, class_reader(space), lambda rows: placed(represent(rows))
        )
    if kind == "MultiDiscrete":
        represent = class_representation(space.nvec, spec)
        return SlabPlan(
            shape, np.dtype(np.int64), None, classes_reader(space), lambda rows: placed(represent(rows))
        )
    return None
