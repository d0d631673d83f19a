"""Rewards and done flags are stored with a trailing 1 that is no dimension of theirs; so is what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name, next_key
from specgen_runtime.transforms.keys import each_key, leaf_keys, subspec
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import Composite
    from specgen_runtime.transforms.base import Transform
    from specgen_runtime.transforms.entries import EntriesTransform

__all__ = [
    "Columns",
    "check_pattern",
    "column_keys",
    "columns_of",
    "following_each_other",
    "reward_and_done_columns",
    "row_shape",
]


class Columns(NamedTuple):
    """The columns among the entries of a transform.

    Attributes:
        read: those that it reads.
        written: those that it writes.
    """

    read: frozenset[NestedKey]
    written: frozenset[NestedKey]


def column_keys(env: EnvBase[Any]) -> frozenset[NestedKey]:
    """The columns of an environment, as its transforms know them."""
    known: frozenset[NestedKey] = getattr(env, "_columns", frozenset())
    return known


def reward_and_done_columns(outputs: Composite) -> frozenset[NestedKey]:
    """The rewards and done flags that have a trailing 1, from the specs of what an environment returns."""
    groups = [subspec(outputs, "full_reward_spec"), subspec(outputs, "full_done_spec")]
    return frozenset(
        key for group in groups for key in leaf_keys(group) if _ends_in_one(group[key].shape, outputs.ndim)
    )


def columns_of(transform: EntriesTransform[Any, Any]) -> Columns:
    """The columns among the entries of `transform`: in its environment, or in the data that it is given.

    Raises:
        ValueError: if an entry has other dimensions than its pattern.
    """
    env = transform.parent
    before = _recorded(transform) if env is None else column_keys(env)
    read = set()
    for row in transform.keys:
        sizes: dict[str, tuple[int, NestedKey]] = {}
        for field in transform._inputs():
            pattern = transform._shapes.get(field)
            for key in each_key(getattr(row, field)):
                if pattern is None:
                    read |= {key} & (before | _shaped_as_columns(transform, row, field, before))
                elif (shape := stored_shape(transform, key)) is not None and _matched(
                    transform, key, shape, key in before, pattern.split(", ") if pattern else [], sizes
                ):
                    read.add(key)
    written = transform._column_outputs(before | read) | frozenset(transform._new_rewards())
    inside = written - frozenset(transform._fields(transform._inputs()))
    return Columns(frozenset(read) | inside, written)


def _shaped_as_columns(
    transform: EntriesTransform[Any, Any], row: Any, field: str, columns: frozenset[NestedKey]
) -> frozenset[NestedKey]:
    """The key of an input that has the dimensions of another, if that is one of `columns` and it is stored alike."""
    key, other = getattr(row, field), transform._beside.get(field)
    if other is None or getattr(row, other) not in columns:
        return frozenset()
    alike = stored_shape(transform, key) == stored_shape(transform, getattr(row, other))
    return frozenset({key} if alike else ())


def row_shape(transform: EntriesTransform[Any, Any], key: NestedKey) -> tuple[int, ...]:
    """The dimensions of an input of `transform` for one environment, as it reads them."""
    shape = stored_shape(transform, key)
    assert shape is not None  # the key is bound
    return shape[:-1] if key in transform._columns.read else shape


def stored_shape(transform: EntriesTransform[Any, Any], key: NestedKey) -> tuple[int, ...] | None:
    """The dimensions of an input for one environment as they are stored; None where data lack it."""
    env, data = transform.parent, transform._data
    if env is None and data is not None and all(data.get(k, None) is None for k in (key, next_key(key))):
        return None
    return tuple(transform._spec(key).shape[transform._batch_dims() :])


def following_each_other(
    transforms: Iterable[Transform],
    data: TensorDictBase,
    apply: Callable[[Transform, TensorDictBase], TensorDictBase],
    moment: Callable[[TensorDictBase], TensorDictBase] = lambda data: data,
) -> TensorDictBase:
    """Apply transforms in no environment, each while it is told which columns those in front of it have written.

    Args:
        transforms: in order.
        data: what the first is applied to.
        apply: applies one to what the one in front of it returned.
        moment: what tells the keys, made of what one is applied to.

    Returns:
        What the last returned.
    """
    chain = list(transforms)
    # Who reads no columns is not asked which it writes, unless one behind it reads some.
    last = max((place for place, entry in enumerate(chain) if getattr(entry, "_logical", False)), default=0)
    columns: frozenset[NestedKey] = frozenset()
    for place, entry in enumerate(chain):
        bind = getattr(entry, "_bound_to", None) if place <= last and last else None
        if bind is None:
            data = apply(entry, data)
            continue
        entry.__dict__["_columns_in_front"] = columns
        try:
            if place < last:
                bound: EntriesTransform[Any, Any] = bind(moment(data))
                columns = bound._columns_behind(columns | _recorded(bound))
            data = apply(entry, data)
        finally:
            del entry.__dict__["_columns_in_front"]
    return data


def _recorded(transform: EntriesTransform[Any, Any]) -> frozenset[NestedKey]:
    """The columns of data: what is called as rewards and done flags are, and what transforms in front have written."""
    data = transform._data
    if data is None:
        return frozenset()
    found = set(transform._columns_in_front)
    for key in transform._fields(transform._inputs()):
        value: Tensor | None = data.get(next_key(key), None)
        value = data.get(key, None) if value is None else value
        if (
            value is not None
            and leaf_name(key) in (*FLAGS, "reward")
            and _ends_in_one(value.shape, data.ndim)
        ):
            found.add(key)
    return frozenset(found)


def _ends_in_one(shape: tuple[int, ...], batch: int) -> bool:
    return len(shape) > batch and shape[-1] == 1


def _matched(
    transform: EntriesTransform[Any, Any],
    key: NestedKey,
    shape: tuple[int, ...],
    column: bool,
    pattern: list[str],
    sizes: dict[str, tuple[int, NestedKey]],
) -> bool:
    """Whether an entry is read without a trailing 1; what its pattern names is noted in `sizes`.

    An entry that has just one dimension more than its pattern, of size 1, is a column, too: of environments by hand
    nobody knows which of their observations are made of flags. A column without a dimension that its pattern names is
    read as it is stored, as one of one.
    """
    wanted = pattern[1:] if pattern[:1] == ["..."] else pattern
    free = len(wanted) < len(pattern)
    column = column or (not free and len(shape) == len(wanted) + 1 and shape[-1] == 1)
    column = column and len(shape) != len(wanted)
    actual = shape[:-1] if column else shape
    without = ", without the trailing 1 of rewards and flags" if column else ""
    check_pattern(transform, key, actual, pattern, sizes, without)
    return column


def check_pattern(
    transform: EntriesTransform[Any, Any],
    key: NestedKey,
    actual: Sequence[int],
    pattern: Sequence[str],
    sizes: dict[str, tuple[int, NestedKey]],
    without: str = "",
) -> None:
    """Check the dimensions of an entry for one environment against its pattern; note the sizes that this names.

    Args:
        transform: whose entry it is.
        key: its key.
        actual: the dimensions that it has.
        pattern: those of the pattern: ``"..."`` in front for any number of them, numbers, names, ``"_"``.
        sizes: the sizes that are named so far in this repetition, each with the entry that it is of.
        without: what the message says behind `actual`.

    Raises:
        ValueError: if they do not fit.
    """
    wanted = pattern[1:] if pattern[:1] == ["..."] else pattern
    free = len(wanted) < len(pattern)
    needs = f"{type(transform).__name__} needs"
    if len(actual) < len(wanted) or (not free and len(actual) > len(wanted)):
        raise ValueError(
            f"{needs} [{', '.join(pattern)}], but {key!r} has the shape {list(actual)} in each environment{without}"
        )
    for size, have in zip(wanted, actual[len(actual) - len(wanted) :], strict=True):
        if size == "_":
            continue
        known, other = (int(size), None) if size.isdigit() else sizes.setdefault(size, (have, key))
        if known != have and other is None:
            raise ValueError(f"{needs} [{', '.join(pattern)}], but {key!r} has the shape {list(actual)}")
        if known != have:
            raise ValueError(f"{needs} one {size!r}, but it is {known} for {other!r} and {have} for {key!r}")
