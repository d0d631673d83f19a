"""`Stacked`: leaf specs of one class that differ in bounds, sizes, classes or masks, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.boxes import Box, BoxList
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.stacks.base import SpecStack

__all__ = ["Stacked"]


class Stacked(SpecStack[TensorSpec]):
    """Leaf specs of one class, dtype, device and number of dimensions, along a stack dimension.

    `torch.stack` of specs makes it where they differ in bounds, sizes, classes or masks.

    ```python
    spec = torch.stack([Bounded(0, 1, (3,)), Bounded(0, 2, (4,))])
    spec.shape  # (2, -1): the sizes differ
    spec[1]  # the second spec
    spec.rand()  # a nested tensor of shapes (3,) and (4,); a plain tensor where sizes agree
    ```

    It can be reshaped and indexed along all dimensions. Results of one item are plain specs.

    Args:
        specs: the items, at least one.
        dim: the stack dimension; a negative one is counted from behind.

    Raises:
        TypeError: if an item is not a leaf spec.
        ValueError: if there is no item, `dim` is out of range, or it would come after the columns of the items.
        RuntimeError: if the items differ in class, dtype, device or number of dimensions.
    """

    def __init__(self, *specs: TensorSpec, dim: int) -> None:
        super().__init__(*specs, dim=dim)
        if isinstance(specs[0], Composite):
            raise TypeError("composites are stacked by StackedComposite, not by Stacked")

    @property
    def device(self) -> torch.device | None:
        """Where the values are."""
        return self._items[0].device

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the values; None if they are not tensors."""
        return self._items[0].dtype

    @property
    def domain(self) -> str:
        """The domain of the items: `"continuous"`, `"discrete"` or empty."""
        return self._items[0].domain

    @property
    def space(self) -> BoxList | None:
        """The domains of the items, in order; None if they have none."""
        boxes: list[Box | None] = [item.space for item in self._items]
        known = tuple(box for box in boxes if box is not None)
        return BoxList(known) if len(known) == len(boxes) else None

    def __iter__(self) -> Iterator[Any]:
        """The specs along the first dimension."""
        return iter(self.unbind(0))

    def __repr__(self) -> str:
        items = "".join(f"    {item!r},\n".replace("\n    ", "\n        ") for item in self._items)
        return f"{type(self).__name__}(\n{items}    dim={self._stack_dim}, shape={tuple(self.shape)})"
