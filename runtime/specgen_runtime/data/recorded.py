"""`load_recorded`: transitions that were saved before, checked against what a training reads of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.reported import ReportedError
from specgen_runtime.typing import NestedKey

__all__ = ["MissingDataError", "RecordedDataError", "load_recorded"]


class RecordedDataError(ReportedError, ValueError):
    """A folder whose data are not what a training reads of them."""


class MissingDataError(ReportedError, FileNotFoundError):
    """A folder that is not there, or holds no tensordict."""


def load_recorded(
    path: str | Path,
    entries: Mapping[NestedKey, tuple[torch.dtype, tuple[int, ...]]],
    *,
    keys: Mapping[NestedKey, NestedKey] | None = None,
    at_most: int | None = None,
) -> TensorDictBase:
    """Read transitions that were saved with `tensordict.memmap(path)`, one behind the other.

    Entries that nobody asks for are left in their files.

    Args:
        path: the folder.
        entries: what is read, each with its dtype and the shape that it has behind the batch dimensions.
        keys: what entries are called in the files, by what they are called here, where that differs.
        at_most: how many transitions there is space for; None for any number.

    Returns:
        A tensordict of batch size `[frames]` with these entries, memory-mapped where they were saved in one batch dimension.

    Raises:
        MissingDataError: the folder is not there, or holds no tensordict.
        RecordedDataError: it holds no transitions or too many, lacks an entry, or has one of another dtype or shape; all are named.
    """
    folder = Path(path)
    if not (folder / "meta.json").is_file():
        raise MissingDataError(
            f"{folder} holds no recorded data: save some with `rollout.memmap({str(folder)!r})`"
        )
    data: TensorDictBase = TensorDict.load_memmap(folder)
    if 0 in data.batch_size:  # whose `numel` is 1
        raise RecordedDataError(f"{folder} holds no transitions: its batch size is {list(data.batch_size)}")
    if at_most is not None and data.numel() > at_most:
        raise RecordedDataError(
            f"{folder} holds {data.numel()} transitions, and there is space for {at_most}"
        )
    known = {as_tuple(key) for key in data.keys(True, True)}
    wrong: list[str] = []
    there = {as_tuple(key): name for key, name in (keys or {}).items()}
    found_at: dict[NestedKey, NestedKey] = {}
    for key, (dtype, shape) in entries.items():
        source = found_at[key] = there.get(as_tuple(key), key)
        if as_tuple(source) not in known:
            said = repr(key) if source == key else f"{key!r}, which is called {source!r} there,"
            wrong.append(f"{said} is missing")
            continue
        value = data.get(source)
        found = tuple(value.shape[data.batch_dims :])
        if value.dtype != dtype or found != tuple(shape):
            wrong.append(
                f"{key!r} must be {dtype} of shape {list(shape)} behind the batch, got {value.dtype} {list(found)}"
            )
    if wrong:
        raise RecordedDataError(f"{folder} does not hold what is read of it: {'; '.join(wrong)}")
    selected: TensorDictBase = data.select(*entries) if not there else TensorDict({}, data.batch_size)
    for key, source in found_at.items() if there else ():
        selected.set(key, data.get(source))
    return selected if data.batch_dims == 1 else selected.reshape(-1)
