"""`MultiCategorical`: several class indices side by side, each with its own number of classes."""

from __future__ import annotations

from typing import Self

import torch

from specgen_runtime.specs.arguments import as_size, integer_range
from specgen_runtime.specs.boxes import BoxList
from specgen_runtime.specs.leaf import LeafSpec
from specgen_runtime.specs.values import exact, saturate
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, ShapeLike

__all__ = ["MultiCategorical"]


class MultiCategorical(LeafSpec):
    """Columns of class indices: column `j` of the last dimension holds `0 … nvec[..., j] - 1`.

    Args:
        nvec: the numbers of classes, one per column; further dimensions may give each row its own.
        shape: the shape, ending with that of `nvec`; the shape of `nvec` if None.
        device: the device; torch's default device if None.
        dtype: the dtype; it must hold every class.

    Raises:
        TypeError: if `nvec` does not hold whole numbers.
        ValueError: if a number of classes is not positive or too large for `dtype`, or if `shape` does not
            end with the number of columns.
    """

    _tensors = ("_nvec",)
    _fixed_dims = 1
    _checks_encode = True

    def __init__(
        self,
        nvec: ArrayLike,
        shape: ShapeLike | None = None,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = torch.int64,
    ) -> None:
        counts = _read_counts(nvec)
        size = counts.shape if shape is None else as_size(shape)
        try:
            if size[-1:] != counts.shape[-1:]:
                raise RuntimeError
            spread = counts.expand(size)
        except RuntimeError:
            raise ValueError(
                f"shape must end with that of nvec, {tuple(counts.shape)}, got {tuple(size)}"
            ) from None
        super().__init__(size, device, dtype)
        self._check_holds(self._dtype, counts)
        self._nvec = spread.to(self._device)
        self._refresh()

    @staticmethod
    def _check_holds(dtype: torch.dtype, counts: torch.Tensor) -> None:
        if not dtype.is_floating_point and int(counts.max()) - 1 > integer_range(dtype)[1]:
            raise ValueError(
                f"dtype {dtype} holds at most {integer_range(dtype)[1] + 1} classes, got nvec={counts.tolist()}"
            )

    def _refresh(self) -> None:
        rows = self._nvec.reshape(-1, self._shape[-1]).cpu()
        # None when the rows differ; an empty batch has no row to read.
        self._columns: list[int] | None = None
        if len(rows) and bool((rows == rows[0]).all()):
            self._columns = rows[0].tolist()

    @property
    def nvec(self) -> torch.Tensor:
        """The numbers of classes, int64 of the spec's shape."""
        return self._nvec

    @property
    def space(self) -> BoxList:
        """One box per column."""
        return BoxList.from_nvec(self._nvec)

    def rand(self, shape: ShapeLike | None = None) -> torch.Tensor:
        """Draw classes uniformly from torch's global generator, column after column.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        lead = self._sized(shape)[: -self.ndim]
        batch = self._shape[:-1]
        # Within a column the last batch dimension varies slowest and what is in front fastest.
        drawn_shape = (*reversed(batch), *lead)
        if self._columns is not None:
            columns = [
                torch.randint(count, drawn_shape, dtype=self._dtype, device=self._device)
                for count in self._columns
            ]
        else:
            columns = [
                self._draw_column(counts, lead).reshape(drawn_shape) for counts in self._nvec.unbind(-1)
            ]
        if batch and (lead or len(batch) > 1):
            order = (*range(len(batch), len(drawn_shape)), *reversed(range(len(batch))))
            columns = [column.permute(order) for column in columns]
        return torch.stack(columns, -1)

    def _draw_column(self, counts: torch.Tensor, lead: torch.Size) -> torch.Tensor:
        """Draw one column whose number of classes differs from row to row."""
        cells = counts.permute(*reversed(range(counts.ndim))).flatten().tolist()
        drawn = [torch.randint(count, lead, dtype=self._dtype, device=self._device) for count in cells]
        return (
            torch.stack(drawn) if drawn else torch.empty((0, *lead), dtype=self._dtype, device=self._device)
        )

    @property
    def _draws_in_order(self) -> bool:
        return False  # a batch is drawn column by column, successive draws are not

    def _outside(self, value: torch.Tensor) -> str | None:
        inside = (value >= 0) & (value <= self._nvec - 1)
        if value.is_floating_point():
            inside &= value == value.floor()
        if bool(inside.all()):
            return None
        place = tuple(inside.logical_not().nonzero()[0].tolist())
        count = int(self._nvec.expand(value.shape)[place])
        return self._first_outside(value, inside, f"classes 0 … {count - 1}")

    def _project(self, val: torch.Tensor) -> torch.Tensor:
        return saturate(val, 0, self._nvec - 1, torch.int64).to(self._dtype)

    def _to_dtype(self, dtype: torch.dtype) -> Self:
        self._check_holds(dtype, self._nvec)
        new = self.clone()
        new._dtype = dtype
        return new

    def _domain_text(self) -> str:
        return f"nvec={self._columns if self._columns is not None else self._nvec.tolist()}"


def _read_counts(nvec: ArrayLike) -> torch.Tensor:
    counts = exact(nvec, "nvec")
    if counts.is_floating_point():
        raise TypeError(f"nvec must hold whole numbers, got {nvec!r}")
    if counts.ndim == 0:
        counts = counts.unsqueeze(0)
    if not counts.numel() or int(counts.min()) < 1:
        raise ValueError(f"nvec must hold numbers of classes, each at least 1, got {counts.tolist()}")
    return counts
