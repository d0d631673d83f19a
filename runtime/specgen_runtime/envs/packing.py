"""Fast reading, writing, packing and stacking of plain tensordicts, past what tensordict itself would check again.

`TensorDict(...)` validates every entry: its shape, its device, the type of its key. Generated code has proved
all of that before running, so it packs through `fast_td`, which is about four times cheaper.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensor_collection

from specgen_runtime.typing import NestedKey

__all__ = [
    "entries_of",
    "entries_of_root",
    "fast_td",
    "flat_td",
    "holds",
    "overlay",
    "owning_td",
    "peek",
    "put",
    "put_checked",
    "stack_alike",
    "stack_tds",
    "update_with",
]


def fast_td(
    entries: dict[str, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    names: list[str | None] | None = None,
    agents: Mapping[str, int] | None = None,
    kind: type[TensorDict] = TensorDict,
) -> TensorDict:
    """Pack `entries` into a tensordict without validating them.

    Args:
        entries: tensors by name; a dict as a value becomes a nested tensordict of the same batch size.
            Every tensor must start with `batch_size` and live on `device`: this is not checked.
        batch_size: the batch size of the result.
        device: the device of the result, or None.
        names: the names of the batch dimensions, if any.
        agents: entries that are groups of agents, and how many: their batch size ends in that dimension.
        kind: the class of the result.

    Returns:
        A new tensordict that shares the tensors of `entries`.
    """
    if agents is not None:
        entries = {**entries, **_groups(entries, batch_size, device, agents)}
    if torch.compiler.is_compiling():
        unsafe: Any = kind._new_unsafe
        traced: TensorDict = unsafe(source=entries, batch_size=batch_size, device=device)
        if names is not None:
            traced.names = names  # names that are given to the constructor get lost here
        return traced
    if dict in map(type, entries.values()):
        entries = {
            name: fast_td(value, batch_size, device) if type(value) is dict else value
            for name, value in entries.items()
        }
    packed = flat_td(entries, batch_size, device, kind)
    if names is not None and not _named(packed, names):
        packed.names = names
    return packed


def flat_td(
    entries: dict[str, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    kind: type[TensorDict] = TensorDict,
) -> TensorDict:
    """`fast_td` of entries among which there is no dict, where torch does not trace."""
    return owning_td(entries.copy(), batch_size, device, kind)


def owning_td(
    entries: dict[str, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    kind: type[TensorDict] = TensorDict,
) -> TensorDict:
    """`flat_td` that takes the dict over: whoever gave it does not write into it any more.

    This is the one place that knows what a tensordict is made of.
    """
    packed: TensorDict = TensorDict.__new__(kind)
    packed._tensordict = entries
    packed._batch_size = batch_size
    packed._device = device
    packed._td_dim_names = None
    return packed


def _named(tensordict: TensorDict, names: list[str | None]) -> bool:
    """Name the batch dimensions, as the property does ten times slower; False if there is more than tensors."""
    for value in tensordict._tensordict.values():
        if type(value) is TensorDict:
            more = value._td_dim_names or [None] * value.batch_dims
            if not _named(value, [*names, *more[len(names) :]]):
                return False
        elif not isinstance(value, torch.Tensor):
            return False
    tensordict._td_dim_names = list(names)
    return True


def _groups(
    entries: dict[str, Any],
    batch_size: torch.Size,
    device: torch.device | None,
    agents: Mapping[str, int],
) -> dict[str, TensorDict]:
    """The entries that are groups of agents, as tensordicts with a batch dimension for the agents."""
    return {
        name: fast_td(entries[name], torch.Size((*batch_size, count)), device)
        for name, count in agents.items()
        if isinstance(entries.get(name), dict)
    }


def entries_of(tensordict: TensorDictBase) -> Mapping[str, Any]:
    """Return the first-level entries of a tensordict, for reading only."""
    if type(tensordict) is TensorDict:
        entries: Mapping[str, Any] = tensordict._tensordict
        return entries
    return dict(tensordict.items())


def entries_of_root(tensordict: Any) -> dict[str, Any] | None:
    """The first-level entries of a root of batch size `()` of which a step makes nothing special, to be written into.

    None of anything else: what is no plain tensordict or locked, holds `"next"` or `"_step"`, or where torch traces.
    """
    if (
        type(tensordict) is not TensorDict
        or tensordict._batch_size
        or tensordict._is_locked
        or torch.compiler.is_dynamo_compiling()
        or torch._C._functorch.maybe_current_level() is not None
    ):
        return None
    entries: dict[str, Any] = tensordict._tensordict
    return None if "next" in entries or "_step" in entries else entries


def overlay(
    tensordict: TensorDictBase, entries: dict[str, Any], excluded: Collection[tuple[str, ...]] = ()
) -> dict[str, Any]:
    """The entries of a root tensordict with `entries` in place of its own, and without `"next"`.

    Tensors are shared, containers are not: writing into a nested tensordict of the result leaves
    `tensordict` as it is.

    Args:
        tensordict: the root.
        entries: tensors, or dicts for nested entries.
        excluded: paths into `entries` that are left out.
    """
    result: dict[str, Any] = {}
    for name, value in entries_of(tensordict).items():
        if name != "next" and name not in entries:
            result[name] = value if isinstance(value, torch.Tensor) else value.copy()
    for name, new in entries.items():
        if (name,) in excluded:
            continue
        if isinstance(new, dict):
            old = tensordict.get(name, None)
            inner = {path[1:] for path in excluded if path[0] == name}
            new = overlay(old, new, inner) if isinstance(old, TensorDictBase) else _without(new, inner)
        result[name] = new
    return result


def _without(entries: dict[str, Any], excluded: Collection[tuple[str, ...]]) -> dict[str, Any]:
    """Nested dicts without some of their paths."""
    return {
        name: _without(value, {path[1:] for path in excluded if path[0] == name})
        if isinstance(value, dict)
        else value
        for name, value in entries.items()
        if (name,) not in excluded
    }


def stack_tds(tensordicts: Sequence[TensorDictBase], dim: int) -> dict[str, Any]:
    """Stack tensordicts entry by entry, as nested dicts; several times cheaper than stacking them whole.

    Raises:
        RuntimeError: the tensordicts have different keys.
    """
    columns = [entries_of(tensordict) for tensordict in tensordicts]
    names = columns[0].keys()
    for t, column in enumerate(columns):
        if column.keys() != names:
            odd = sorted(column.keys() ^ names)
            raise RuntimeError(f"step {t} and step 0 of a rollout differ in their keys: {odd}")
    result: dict[str, Any] = {}
    for name in names:
        values = [column[name] for column in columns]
        if isinstance(values[0], torch.Tensor):
            result[name] = torch.stack(values, dim)
        elif type(values[0]) is TensorDict:
            result[name] = stack_tds(values, dim)
        else:
            result[name] = LazyStackedTensorDict.maybe_dense_stack(values, dim)
    return result


def stack_alike(tensordicts: Sequence[TensorDictBase], dim: int) -> TensorDict | None:
    """Stack tensordicts of the same keys, shapes and dtypes, with the new dimension named `"time"`.

    Returns:
        A new tensordict, several times cheaper than by `torch.stack`; None if they are not alike, or hold anything
        but tensors in plain tensordicts of one batch size, without names.
    """
    first = tensordicts[0]
    size = first.batch_size
    if not all(_alike(each, first, size) for each in tensordicts):
        return None
    try:
        entries = stack_tds(tensordicts, dim)
    except RuntimeError:  # sizes that differ from step to step
        return None
    whole = torch.Size((*size[:dim], len(tensordicts), *size[dim:]))
    return fast_td(entries, whole, first.device, [*[None] * dim, "time", *[None] * (len(size) - dim)])


def _alike(tensordict: TensorDictBase, first: TensorDictBase, size: torch.Size) -> bool:
    if (
        type(tensordict) is not TensorDict
        or type(first) is not TensorDict
        or tensordict.batch_size != size
        or tensordict.device != first.device
        or tensordict._has_names()
        or tensordict._tensordict.keys() != first._tensordict.keys()
    ):
        return False
    for name, value in tensordict._tensordict.items():
        other = first._tensordict[name]
        if not isinstance(value, torch.Tensor):
            if not _alike(value, other, size):
                return False
        elif not isinstance(other, torch.Tensor) or value.dtype is not other.dtype or value.is_nested:
            return False
    return True


def holds(tensordict: Any, name: str) -> bool:
    """Whether a plain tensordict has an entry; False of anything else."""
    return type(tensordict) is TensorDict and name in tensordict._tensordict


def peek(tensordict: TensorDictBase, key: NestedKey) -> Any:
    """An entry as `get` gives it, or None if there is none; several times cheaper for plain tensordicts."""
    if type(tensordict) is not TensorDict:
        return tensordict.get(key, None)
    if isinstance(key, str):
        return tensordict._tensordict.get(key)
    found: Any = tensordict
    for name in key:
        if type(found) is not TensorDict:
            return None if found is None else tensordict.get(key, None)
        found = found._tensordict.get(name)
    return found


def put_checked(tensordict: TensorDictBase, key: NestedKey, value: Any) -> None:
    """Write an entry as `set` does; several times cheaper for a tensor that fits plain tensordicts as it is."""
    inner: Any = tensordict
    name: Any = key
    if type(key) is tuple:
        inner, name = _nest(tensordict, key[:-1]), key[-1]
    if type(inner) is TensorDict and type(name) is str and isinstance(value, torch.Tensor):
        size, device = inner._batch_size, inner._device
        fits = not size or value.shape[: len(size)] == size
        if fits and (device is None or value.device == device) and not inner.is_locked:
            inner._tensordict[name] = value
            return
    tensordict.set(key, value)


def _nest(tensordict: TensorDictBase, path: tuple[Any, ...]) -> Any:
    """The tensordict at a path, which is made where plain tensordicts lack it; None where there is something else."""
    inner: Any = tensordict
    for name in path:
        if type(inner) is not TensorDict:
            return None
        found = inner._tensordict.get(name)
        if found is None:
            if inner.is_locked or torch.compiler.is_compiling():
                return None
            found = flat_td({}, inner._batch_size, inner._device)
            if inner._td_dim_names is not None:
                found._td_dim_names = list(inner._td_dim_names)
            inner._tensordict[name] = found
        inner = found
    return inner


def put(tensordict: TensorDictBase, key: NestedKey, value: Any) -> None:
    """Write an entry that is a tensor of the right batch size and device, or is compared with its spec later."""
    if isinstance(key, str) and type(tensordict) is TensorDict and not tensordict.is_locked:
        tensordict._tensordict[key] = value
    else:
        tensordict.set(key, value)


def update_with(tensordict: Any, fresh: Any) -> Any:
    """Write entries as `update` does; a nest of another size, such as a longer history, takes the place of the old one.

    Returns:
        `tensordict`, or a lazy stack of its rows where those of `fresh` differ in size.
    """
    if isinstance(tensordict, LazyStackedTensorDict) and isinstance(fresh, TensorDict):
        for own, row in zip(tensordict.tensordicts, fresh.unbind(tensordict.stack_dim), strict=True):
            update_with(own, row)
        return tensordict
    if not isinstance(fresh, LazyStackedTensorDict):
        _leave_out_other_sizes(tensordict, fresh)
        return tensordict.update(fresh)
    dim = fresh.stack_dim
    if isinstance(tensordict, LazyStackedTensorDict) and tensordict.stack_dim == dim:
        for own, row in zip(tensordict.tensordicts, fresh.tensordicts, strict=True):
            update_with(own, row)
        return tensordict
    try:
        return tensordict.update(fresh)
    except RuntimeError:  # no tensor has rows that differ in size
        rows = zip(tensordict.unbind(dim), fresh.tensordicts, strict=True)
        return LazyStackedTensorDict.lazy_stack([update_with(own, row) for own, row in rows], dim)


def _leave_out_other_sizes(tensordict: Any, fresh: Any) -> None:
    for key, value in fresh.items():
        if not is_tensor_collection(value):
            continue
        old = tensordict.get(key, None)
        if not is_tensor_collection(old):
            continue
        whole = not isinstance(value, TensorDictBase)  # a tensorclass
        if whole or not _takes(old, value):
            del tensordict[key]
        elif isinstance(old, TensorDict) and isinstance(value, TensorDict):
            _leave_out_other_sizes(old, value)


def _takes(old: TensorDictBase, value: TensorDictBase) -> bool:
    """Whether the entries of a nest can be written into the one that is there."""
    if isinstance(old, LazyStackedTensorDict) and isinstance(value, LazyStackedTensorDict):
        pairs = old.stack_dim == value.stack_dim and len(old.tensordicts) == len(value.tensordicts)
        return pairs and all(map(_takes, old.tensordicts, value.tensordicts))
    if old.batch_size[: value.batch_dims] != value.batch_size[: old.batch_dims]:
        return False
    if old.batch_dims <= value.batch_dims and not isinstance(value, LazyStackedTensorDict):
        return True
    try:
        shapes = [entry.shape[: old.batch_dims] for entry in value.values(True, True)]
    except RuntimeError:  # rows that differ in size
        return False
    return all(shape == old.batch_size for shape in shapes)
