"""Type aliases shared by the runtime and by generated code."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tensordict import TensorDictParams as TensorDictParams
    from tensordict.nn import TensorDictModuleBase as TensorDictModuleBase

__all__ = [
    "DEVICE_TYPING",
    "Array",
    "ArrayLike",
    "Entries",
    "Index",
    "IndexLike",
    "NestedKey",
    "ShapeLike",
    "SpecValue",
    "TensorDict",
    "TensorDictBase",
]

NestedKey: TypeAlias = str | tuple[str, ...]
"""The name of an entry: `"reward"`, or `("agents", "reward")` for a nested one."""

DEVICE_TYPING: TypeAlias = torch.device | str | int
"""Anything that names a device: `torch.device("cpu")`, `"cuda:0"`, or an accelerator's index."""

ShapeLike: TypeAlias = Sequence[int] | int
"""A shape. An integer stands for one dimension: `3` is `(3,)`."""

SpecValue: TypeAlias = torch.Tensor | TensorDictBase
"""What a spec describes: a tensor for a leaf, a tensordict for a `Composite`."""

Array: TypeAlias = "NDArray[Any]"
"""An array of NumPy's."""

ArrayLike: TypeAlias = (
    "bool | int | float | np.generic | Sequence[ArrayLike] | NDArray[np.generic] | torch.Tensor"
)
"""Numbers, nested sequences of numbers, arrays or tensors."""

_IndexItem: TypeAlias = (
    "int | slice | EllipsisType | range | list[int] | list[bool] | NDArray[np.generic] | torch.Tensor | None"
)
IndexLike: TypeAlias = "_IndexItem | tuple[_IndexItem, ...]"
"""Whatever stands between the brackets of `tensor[...]`."""

Index: TypeAlias = IndexLike
"""What indexes the batch of a typed tensordict; keys have overloads of their own."""


class Entries(Protocol):
    """What holds entries: a tensordict, or a dict where all keys are flat. tensordict's own `get` has no types."""

    def get(self, key: Any, /) -> Any:
        """Return an entry."""
