"""Minibatches of an on-policy batch: its rows in random order, or its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import entries_of, flat_td

__all__ = ["column_minibatches", "equal_parts", "joined", "mean_losses", "minibatches"]

D = TypeVar("D", bound=TensorDictBase)


def minibatches(
    data: D, size: int, *, generator: torch.Generator | None = None, epochs: int = 1, shuffle: bool = True
) -> Iterator[D]:
    """The rows of a batch in random order, `size` of them at a time; every row once in each epoch.

    Args:
        data: of any batch size, such as `[B, T]`; its rows are those of all batch dimensions. It is not changed.
        size: how many rows a minibatch has; it divides their number.
        generator: draws the order; None is torch's global one.
        epochs: how many passes over the data (>= 1).
        shuffle: False leaves the rows in their order.

    Yields:
        A tensordict of batch size `[size]`, which shares memory with the others of its epoch and not with `data`.

    Raises:
        ValueError: `size` does not divide the number of rows, or `epochs` is less than 1.
    """
    rows = data.numel()
    _check("minibatches", "rows", rows, size, epochs)
    return _rows(data, rows, size, _Order(generator, shuffle), epochs)


def column_minibatches(
    data: D,
    size: int,
    *,
    generator: torch.Generator | None = None,
    epochs: int = 1,
    dim: int = 0,
    shuffle: bool = True,
) -> Iterator[D]:
    """The environments of a batch in random order, `size` of them at a time with all their steps.

    For recurrent networks, which run along the steps: no step is torn from the one before it.

    Args:
        data: of batch size `[B, T]`, or another with the environments in dimension `dim`. It is not changed.
        size: how many environments a minibatch has; it divides their number.
        generator: draws the order; None is torch's global one.
        epochs: how many passes over the data (>= 1).
        dim: the dimension of the environments; 1 for batches `[T, B]`.
        shuffle: False leaves the environments in their order.

    Yields:
        A tensordict of the batch size of `data`, but `size` in dimension `dim`.

    Raises:
        ValueError: `size` does not divide the number of environments, `epochs` is less than 1, or `data` has no such
            dimension.
    """
    if not -data.batch_dims <= dim < data.batch_dims:
        raise ValueError(f"column_minibatches: dim {dim} is none of the batch size {list(data.batch_size)}")
    columns = data.batch_size[dim]
    _check("column_minibatches", "environments", columns, size, epochs)
    return _columns(data, columns, size, _Order(generator, shuffle), epochs, dim % data.batch_dims)


def equal_parts(data: D, count: int) -> Sequence[D]:
    """The rows of a batch in their order, in equal parts: views.

    Args:
        data: of batch size `[B, ...]`.
        count: how many parts there are; it divides `B`.

    Raises:
        ValueError: `count` does not divide the rows.
    """
    rows = data.batch_size[0]
    if count < 1 or rows % count:
        raise ValueError(f"equal_parts: {rows} rows have no {count} equal parts")
    return cast("Sequence[D]", data.split(rows // count))


def joined(*samples: D) -> D:
    """Samples of several buffers as one, row behind row; an `index`, which each buffer counts for itself, is left out.

    Args:
        samples: at least one, of batch size `[n]`, with the same entries otherwise.
    """
    rows = [sample.exclude("index") for sample in samples]
    return cast("D", torch.cat(cast("Any", rows)))


def mean_losses(losses: Sequence[D]) -> D:
    """The means of what a loss gave of equal parts of an update, entry by entry.

    Args:
        losses: at least one, of equal entries.
    """
    return cast("D", torch.stack(cast("Any", losses)).mean(dim=0))


def _check(name: str, what: str, count: int, size: int, epochs: int) -> None:
    if size < 1 or count % size:
        raise ValueError(f"{name}: size {size} must divide the {count} {what} of the batch")
    if epochs < 1:
        raise ValueError(f"{name}: epochs must be at least 1, found {epochs}")


class _Order(NamedTuple):
    """How the rows of a pass are ordered: as they are, or as a generator draws."""

    generator: torch.Generator | None
    shuffle: bool

    def of(self, data: TensorDictBase, count: int) -> Tensor:
        """The order of the next pass."""
        if not self.shuffle:
            return torch.arange(count, device=data.device)
        device = torch.device("cpu") if self.generator is None else self.generator.device
        order = torch.randperm(count, generator=self.generator, device=device)
        return order if data.device is None else order.to(data.device)


def _rows(data: D, rows: int, size: int, ordered: _Order, epochs: int) -> Iterator[D]:
    flat = data.reshape(-1)
    plain = _is_plain(flat)
    for _ in range(epochs):
        # Gathered once for all minibatches, which are then slices.
        order = ordered.of(data, rows)
        yield from cast("list[D]", _gathered(flat, order, size)) if plain else flat[order].split(size)


def _is_plain(data: Any) -> bool:
    """Whether there are only tensors, in tensordicts of one batch dimension."""
    return (
        type(data) is TensorDict
        and data.batch_dims == 1
        and all(type(value) is Tensor or _is_plain(value) for value in entries_of(data).values())
    )


def _gathered(data: TensorDictBase, order: Tensor, size: int) -> list[TensorDict]:
    """What `data[order].split(size)` gives, entry by entry, at a third of its cost; for data that `_is_plain`."""
    count = len(order) // size
    columns = {
        name: value[order].reshape(count, size, *value.shape[1:]).unbind(0)
        if isinstance(value, Tensor)
        else _gathered(value, order, size)
        for name, value in entries_of(data).items()
    }
    rows = torch.Size([size])
    return [
        flat_td({name: column[part] for name, column in columns.items()}, rows, data.device)
        for part in range(count)
    ]


def _columns(data: D, columns: int, size: int, ordered: _Order, epochs: int, dim: int) -> Iterator[D]:
    before = (slice(None),) * dim
    for _ in range(epochs):
        yield from data[(*before, ordered.of(data, columns))].split(size, dim)
