"""`MultiOneHot`: several one-hot vectors side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specgen_runtime.specs.boxes import BoxList, CategoricalBox
from specgen_runtime.specs.classes.spec import read_counts
from specgen_runtime.specs.classes.vectors import VectorSpec
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

if TYPE_CHECKING:
    from specgen_runtime.specs.classes.multi_categorical import MultiCategorical

__all__ = ["MultiOneHot"]


class MultiOneHot(VectorSpec):
    """One class of each of several groups, as one-hot vectors one after the other along the last dimension.

    ```python
    MultiOneHot([3, 2]).encode([1, 0])  # tensor([False, True, False, True, False])
    ```

    Args:
        nvec: the numbers of classes of the groups.
        shape: the shape, ending with their sum; one dimension of that size if None. A dimension of -1 has any
            size.
        device: the device; torch's default device if None.
        dtype: the dtype.
        use_register: as for `OneHot`, for each group by itself.
        mask: the allowed classes, True for allowed, one group after the other; broadcasts to `shape`.

    Raises:
        TypeError: if `nvec` does not hold whole numbers along one dimension.
        ValueError: if a number of classes is not positive, or `shape` does not end with their sum.
        RuntimeError: if the mask's shape does not fit.
    """

    _side_by_side = True
    _out_of_range = RuntimeError  # what TorchRL raises here, though not for OneHot

    def __init__(
        self,
        nvec: ArrayLike,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.bool,
        use_register: bool = False,
        mask: ArrayLike | None = None,
    ) -> None:
        counts = read_counts(nvec)
        if counts.ndim != 1:
            raise TypeError(f"nvec must be a sequence of numbers of classes, got {nvec!r}")
        super().__init__(tuple(counts.tolist()), shape, device, dtype, use_register, mask, "sum(nvec)")

    @property
    def nvec(self) -> list[int]:
        """The numbers of classes of the groups."""
        return list(self._widths)

    @property
    def space(self) -> BoxList:
        """One box for each group."""
        return BoxList(tuple(map(CategoricalBox, self._widths)))

    @property
    def _draws_in_order(self) -> bool:
        return False  # a batch is drawn group by group, successive draws are not

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of what `to_categorical` returns, with the same mask: `MultiCategorical` of int64."""
        from specgen_runtime.specs.classes.multi_categorical import (
            MultiCategorical,  # it stands on this module
        )

        return MultiCategorical(self._widths, self._class_shape, self._device, mask=self._mask)

    def _domain_text(self) -> str:
        return f"nvec={self.nvec}" + self._masked_text()
