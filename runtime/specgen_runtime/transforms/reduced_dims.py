"""The dimensions of data that statistics are taken over, as `init_stats` names them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specgen_runtime.transforms.new_rows import NewRows

__all__ = ["ReducedDims"]


class ReducedDims:
    """Which dimensions of a value ``[*batch, time, *row]`` share what is learned of it.

    Args:
        reduce_dim: the dimensions, counted from the front or from the end; None: the batch and time.
        cat_dim: one of them, or None.
        keep_dims: some of them, or None.

    Raises:
        ValueError: `cat_dim` is not in `reduce_dim`.
    """

    def __init__(
        self,
        reduce_dim: int | Sequence[int] | None = None,
        cat_dim: int | None = None,
        keep_dims: Sequence[int] | None = None,
    ) -> None:
        self.reduce_dim = (reduce_dim,) if isinstance(reduce_dim, int) else reduce_dim
        self.cat_dim = cat_dim
        self.keep_dims = keep_dims or ()
        if cat_dim is not None and self.reduce_dim is not None and cat_dim not in self.reduce_dim:
            raise ValueError(f"cat_dim must be one of reduce_dim, {list(self.reduce_dim)}, got {cat_dim}")

    def axes(self, batch_dims: int, dims: int) -> tuple[int, ...]:
        """The reduced dimensions behind the batch, counted from the end.

        Args:
            batch_dims: how many dimensions rows and times have.
            dims: how many dimensions the value has.

        Raises:
            ValueError: a dimension is not there, one of the batch or time is left out, or one is kept that is not
                reduced.
        """
        batch = set(range(batch_dims))
        reduced = (
            batch if self.reduce_dim is None else self._from_the_front("reduce_dim", self.reduce_dim, dims)
        )
        if missing := sorted(batch - reduced):
            raise ValueError(
                f"reduce_dim must have the dimensions {sorted(batch)} of rows and times, which all count alike, got "
                f"{list(self.reduce_dim or ())}: {missing} missing"
            )
        cat = () if self.cat_dim is None else (self.cat_dim,)
        for name, given in (("cat_dim", cat), ("keep_dims", self.keep_dims)):
            if other := sorted(self._from_the_front(name, given, dims) - reduced):
                raise ValueError(f"{name} must be of reduce_dim, {sorted(reduced)}, got {other}")
        return tuple(axis - dims for axis in sorted(reduced - batch))

    @staticmethod
    def _from_the_front(name: str, given: Sequence[int], dims: int) -> set[int]:
        for one in given:
            if not -dims <= one < dims:
                raise ValueError(f"{name} must be dimensions of a value that has {dims}, got {one}")
        return {one % dims for one in given}

    def as_rows(
        self, values: Sequence[Tensor], batch: torch.Size, device: torch.device | None, columns: int
    ) -> tuple[NewRows, list[Tensor]]:
        """Values whose reduced axes count as rows, with those rows; each such axis is left with the size 1.

        Args:
            values: each ``[*batch, *row]``.
            batch: the batch size, with time.
            device: of the data.
            columns: 1 if the first value has been read without its trailing dimension of one, else 0.

        Raises:
            ValueError: as `axes`, or several values differ in an axis.
        """
        moved = list(values)
        size = batch
        for axis in self.axes(len(batch), values[0].dim() + columns):
            place = axis + columns
            if not place:  # the dimension of one itself
                continue
            sizes = [value.shape[place] if value.dim() - len(batch) >= -place else None for value in values]
            if sizes[0] is None or any(one != sizes[0] for one in sizes):
                raise ValueError(
                    f"values of the sizes {sizes} in the dimension {axis} can't share what is learned"
                )
            moved = [value.unsqueeze(len(batch)).transpose(len(batch), place) for value in moved]
            size = torch.Size([*batch, sizes[0], *size[len(batch) :]])
        return NewRows(size, None, device), moved
