"""Changes of shape, as functions on dimensions: what `reshape`, `expand`, indexing and their like do to a spec.

A change is found from the spec's dimensions alone, and is then applied alike to the shape and to each tensor that the
spec holds per element (bounds, masks). `variable_dims.py` makes it right for dimensions of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from tensordict import TensorDict

from specgen_runtime.specs.arguments import as_index, size_from_args
from specgen_runtime.specs.variable_dims import Remap, changed_shape, drawn_size, has_variable
from specgen_runtime.typing import IndexLike

__all__ = [
    "Change",
    "Dims",
    "Names",
    "expand",
    "flatten",
    "free_place",
    "index",
    "place_of",
    "reshape",
    "squeeze",
    "unflatten",
    "unsqueeze",
    "with_variable",
]

Names = tuple[str | None, ...]
"""The name of each batch dimension of a `Composite`; None for those without one."""


class Change(NamedTuple):
    """What happens to the leading dimensions of tensors, and to the names of these dimensions."""

    apply: Remap
    rename: Callable[[Names], Names] | None = None
    """The names after the change, given those of the leading dimensions and of any number behind them; None drops
    them."""


class Dims(NamedTuple):
    """The dimensions of a spec."""

    shape: torch.Size
    """all of them; -1 for those of any size."""
    free: int
    """how many of the first may change; those behind are columns of classes, which stay last."""
    kind: str
    """what messages call the spec."""

    @property
    def text(self) -> str:
        """The spec in messages."""
        return f"a {self.kind} of shape {tuple(self.shape)}"

    @property
    def expected(self) -> str:
        """What messages say of the shape that a value should have."""
        return f"shape {tuple(self.shape)} (or more dimensions in front)" if self.shape else "any shape"

    @property
    def columns_stay(self) -> ValueError:
        """The error for a change of the columns."""
        return ValueError(f"the last dimension of {self.text} holds its columns and stays last")


def expand(dims: Dims, args: tuple[int | Sequence[int], ...]) -> Change:
    """Enlarge singleton dimensions and put new ones in front; see `TensorSpec.expand`."""
    new, kept = size_from_args(args), dims.free
    free = _new_free(dims, new)
    added, grown = free[: len(free) - kept], free[len(free) - kept :]
    if (
        len(free) < kept
        or any(old != size and (old != 1 or size < 0) for old, size in zip(dims.shape, grown, strict=False))
        or min(added, default=0) < 0
    ):
        raise ValueError(
            f"cannot expand {dims.text} to {tuple(new)}: only singleton dimensions grow, and new ones go in front"
        )
    return Change(
        lambda tensor: tensor.expand((*free, *tensor.shape[kept:])),
        lambda names: (*(None for _ in added), *names),
    )


def reshape(dims: Dims, args: tuple[int | Sequence[int], ...]) -> Change:
    """Arrange as many elements in another shape; see `TensorSpec.reshape`."""
    new, kept = size_from_args(args), dims.free
    what = f"reshape {dims.text} to {tuple(new)}"
    if not has_variable(dims.shape):
        # Resolved over the whole shape: the fixed part counts too.
        new = changed_shape(_or_cannot(what, lambda tensor: tensor.reshape(new)), dims.shape)
    free = _new_free(dims, new)
    return Change(_or_cannot(what, lambda tensor: tensor.reshape((*free, *tensor.shape[kept:]))))


def flatten(dims: Dims, start_dim: int, end_dim: int) -> Change:
    """Join dimensions `start_dim … end_dim` into one; see `TensorSpec.flatten`."""
    if not dims.shape and {start_dim, end_dim} <= {0, -1}:
        return unsqueeze(dims, 0)  # so does torch
    start, end = place_of(dims, start_dim), place_of(dims, end_dim)
    what = f"flatten {dims.text} from dimension {start_dim} to {end_dim}"
    if start > end:
        raise RuntimeError(f"cannot {what}: the first dimension comes after the last one")
    joined = _or_cannot(what, lambda tensor: tensor.flatten(start, end))
    if end < dims.free:
        return Change(joined)
    # Nothing but singletons can be joined with the columns.
    _new_free(dims, changed_shape(joined, dims.shape))
    return Change(lambda tensor: tensor.squeeze(tuple(range(start, dims.free))))


def unflatten(dims: Dims, dim: int, sizes: Sequence[int]) -> Change:
    """Split a dimension into `sizes`; see `TensorSpec.unflatten`."""
    place, parts = place_of(dims, dim), tuple(sizes)
    what = f"unflatten dimension {dim} of {dims.text} into {parts}"
    split = _or_cannot(what, lambda tensor: torch.unflatten(tensor, place, parts))
    if place < dims.free:
        return Change(split)
    # Nothing but singletons can be split off the columns.
    new = _new_free(dims, changed_shape(split, dims.shape))
    singletons = (slice(None),) * place + (None,) * (len(new) - place)
    return Change(lambda tensor: tensor[singletons])


def unsqueeze(dims: Dims, dim: int) -> Change:
    """Put in a singleton dimension; see `TensorSpec.unsqueeze`."""
    ndim = len(dims.shape)
    place = dim + ndim + 1 if dim < 0 else dim
    if not 0 <= place <= ndim:
        raise ValueError(f"dim {dim} is out of range: expected -{ndim + 1} … {ndim}")
    if place > dims.free:
        raise dims.columns_stay
    return Change(
        lambda tensor: tensor.unsqueeze(place), lambda names: (*names[:place], None, *names[place:])
    )


def squeeze(dims: Dims, dim: int | None) -> Change | None:
    """Take out singleton dimensions; see `TensorSpec.squeeze`. None if there is none."""
    if dim is None:
        gone = tuple(place for place, size in enumerate(dims.shape[: dims.free]) if size == 1)
    else:
        gone = (place_of(dims, dim),) if dims.shape[place_of(dims, dim)] == 1 else ()
    if not gone:
        return None
    if gone[-1] >= dims.free:
        raise dims.columns_stay
    return Change(
        lambda tensor: tensor.squeeze(gone),
        lambda names: tuple(name for place, name in enumerate(names) if place not in gone),
    )


def index(dims: Dims, item: IndexLike) -> Change:
    """Take the part of the leading dimensions that an index chooses."""
    free = dims.shape[: dims.free]
    full = as_index(item, free, dims.text)

    def rename(names: Names) -> Names:
        indexed = TensorDict(batch_size=drawn_size(free), names=list(names[: dims.free]))[full]
        return (*indexed.names, *names[dims.free :])

    return Change(lambda tensor: tensor[full], rename)


def place_of(dims: Dims, dim: int) -> int:
    """A dimension counted from the front.

    Raises:
        IndexError: if there is no such dimension.
    """
    place = dim + len(dims.shape) if dim < 0 else dim
    if not 0 <= place < len(dims.shape):
        raise IndexError(f"dim {dim} is out of range: the spec has {len(dims.shape)} dimensions")
    return place


def free_place(dims: Dims, dim: int) -> int:
    """A dimension counted from the front, after checking that it is no column.

    Raises:
        IndexError: if there is no such dimension.
        ValueError: if it holds the columns.
    """
    place = place_of(dims, dim)
    if place >= dims.free:
        raise dims.columns_stay
    return place


def with_variable(shape: torch.Size, place: int) -> torch.Size:
    """The shape with one dimension of any size."""
    return torch.Size([-1 if dim == place else size for dim, size in enumerate(shape)])


def _new_free(dims: Dims, shape: Sequence[int]) -> tuple[int, ...]:
    """The free part of a new shape, after checking that the columns are the same."""
    fixed = tuple(dims.shape[dims.free :])
    if fixed and tuple(shape[-len(fixed) :]) != fixed:
        raise ValueError(f"{dims.columns_stay}: it must be {fixed[-1]}, got shape {tuple(shape)}")
    return tuple(shape[: len(shape) - len(fixed)])


def _or_cannot(what: str, change: Remap) -> Remap:
    """The change, with an error that says what can't be done where torch can't do it."""

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        try:
            return change(tensor)
        except RuntimeError:
            raise RuntimeError(f"cannot {what}") from None

    return changed
