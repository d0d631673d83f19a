"""Takes one entry that the policy writes apart into several that the environment is given, and compares their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.inverse import InverseTransform

__all__ = ["parting"]


@contextmanager
def parting(
    transform: InverseTransform[Any, Any], written: TensorDictBase, made: TensorDictBase, row: tuple[Any, ...]
) -> Iterator[None]:
    """Compute several keys in the block of what the policy wrote in their place, which is as large as they are.

    Args:
        transform: the transform.
        written: what the policy wrote.
        made: takes what the environment is given.
        row: the keys.

    Raises:
        RuntimeError: if what the policy wrote has another shape.
    """
    known = transform.parent is not None or transform._given is not None
    if known and not transform._draws_zeros:
        _check_parts(transform, written, transform._dims_of_parts(row), row)
    try:
        yield
    except IndexError as error:
        taken = transform._fields(transform._takes, [row])
        shapes = ", ".join(f"{key!r} {list(written[key].shape)}" for key in taken)
        count = len(transform._fields(transform._gives, [row]))
        raise RuntimeError(
            f"{type(transform).__name__} makes {count} entries of {shapes}, which is too small: {error}"
        ) from error
    if not known:
        _check_parts(transform, written, _dims_of_data(transform, made, row), row)


def _check_parts(
    transform: InverseTransform[Any, Any],
    written: TensorDictBase,
    wanted: Mapping[NestedKey, torch.Size],
    row: tuple[Any, ...],
) -> None:
    for key, dims in wanted.items():
        shape = (*written.batch_size, *dims)
        value = transform._read(written, key, tolerant=True)
        if value is not None and value.shape != shape:
            parts = ", ".join(map(repr, transform._fields(transform._gives, [row])))
            raise RuntimeError(
                f"{type(transform).__name__} reads {key!r} of the shape {list(value.shape)}, and in place of {parts}"
                f" stands {list(shape)}"
            )


def _dims_of_data(
    transform: InverseTransform[Any, Any], made: TensorDictBase, row: tuple[Any, ...]
) -> dict[NestedKey, torch.Size]:
    """The dimensions of what the policy writes in place of data that were made of it, in no environment."""
    twin = transform.clone()
    parts = {key: made[key] for key in transform._fields(transform._gives, [row])}
    given = {key: Unbounded(shape=one.shape[made.ndim :], dtype=one.dtype) for key, one in parts.items()}
    twin.__dict__["_given"] = Composite(given)
    return {key: spec.shape for key, spec in twin._outer_specs(row).items()}
