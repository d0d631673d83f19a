"""Variable dimensions: entries of a spec's shape that are -1 and stand for any size.

Where a size is needed (drawn values, bounds, masks) a variable dimension has size 1. A change of shape is tried
with two different sizes in their place: the dimensions that come out differently are the variable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specgen_runtime.specs.values import equal

__all__ = [
    "changed_shape",
    "changed_tensor",
    "drawn_size",
    "first_of_equal",
    "fits",
    "has_variable",
    "single",
]

Remap = Callable[[torch.Tensor], torch.Tensor]

_TRIED = (2, 3)


def has_variable(shape: Sequence[int]) -> bool:
    """Whether a dimension is variable."""
    return -1 in shape


def drawn_size(shape: torch.Size) -> torch.Size:
    """The shape of what is drawn or stored for a spec: 1 for each variable dimension."""
    return torch.Size([1 if size == -1 else size for size in shape]) if -1 in shape else shape


def fits(shape: Sequence[int], expected: torch.Size) -> bool:
    """Whether the shape of a value ends with `expected`, in which -1 allows any size."""
    count = len(expected)
    if count == 0:
        return True
    end = tuple(shape[-count:])
    if end == expected:
        return True
    return (
        -1 in expected
        and len(end) == count
        and all(size in (-1, given) for size, given in zip(expected, end, strict=True))
    )


def single(value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A tensor without dimensions as the one element of a shape of ones; any other as it is."""
    return value.reshape(shape) if not value.ndim and set(shape) == {1} else value


def changed_shape(change: Remap, shape: Sequence[int]) -> torch.Size:
    """The shape that a tensor of `shape` has after a change of its dimensions.

    Args:
        change: a function that changes the dimensions of a tensor, such as `lambda t: t.unsqueeze(0)`.
        shape: the shape before, with -1 for variable dimensions.
    """
    probe = torch.empty((), dtype=torch.bool, device="cpu")
    if not has_variable(shape):
        return change(probe.expand(shape)).shape
    return torch.Size(_outcome(change, probe, shape)[0])


def changed_tensor(change: Remap, tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor with its leading dimensions changed; variable ones have size 1 before and after.

    Args:
        change: as for `changed_shape`; it leaves the dimensions after those of `shape` alone.
        tensor: `(*drawn_size(shape), ...)`.
        shape: the shape of the leading dimensions, with -1 for variable ones.

    Raises:
        ValueError: if a variable dimension would be joined with one along which the values differ.
    """
    if not has_variable(shape):
        return change(tensor)
    sizes, changed = _outcome(change, tensor, shape)
    for dim, size in enumerate(sizes):
        if size == -1:
            first = first_of_equal(changed, dim)
            if first is None:
                raise ValueError(
                    f"cannot join the dimensions of shape {tuple(shape)}: one is of variable size, and along "
                    "the other the bounds, classes or masks differ"
                )
            changed = first
    return changed


def first_of_equal(tensor: torch.Tensor, dim: int) -> torch.Tensor | None:
    """The tensor with size 1 along a dimension; None if its values differ there, or there are none."""
    if not tensor.shape[dim]:
        return None
    first = tensor.narrow(dim, 0, 1)
    return first if equal(tensor, first.expand_as(tensor)) else None


def _outcome(change: Remap, tensor: torch.Tensor, shape: Sequence[int]) -> tuple[list[int], torch.Tensor]:
    """The shape after a change, with -1 where it is variable, and the changed tensor for one of the sizes."""
    rest = tensor.shape[len(shape) :]
    first, last = (
        change(tensor.expand((*(tried if size == -1 else size for size in shape), *rest))) for tried in _TRIED
    )
    sizes = zip(first.shape, last.shape, strict=True)
    return [size if size == other else -1 for size, other in sizes], first
