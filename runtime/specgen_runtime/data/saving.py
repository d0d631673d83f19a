"""Saving the state of a replay buffer in a folder: all of it, or nothing.

The folder holds one numbered folder for what was saved last, and a file that names it and is replaced when everything
else is on the disk. Rows are raw bytes, several files for each tensor, of so many rows each; those that a storage keeps in
a list are one file. Of rows that did not change since the buffer was saved there before, the file of that time gets another
name (a hard link): only what is new is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.durable import load_values, replace_file, save_values, sync_folder, write_file

__all__ = ["link_saved", "load_state", "save_state"]

_MANIFEST = "saved.json"
_LISTED = "rows.pt"
_ROWS = "rows.json"
_LEAST = 1 << 20
"""Bytes of a file of rows at least, but for the last one."""
_FILES = 256
"""About how many files there are at most for a tensor."""


def save_state(path: Path, storage: dict[str, Any], state: dict[str, Any]) -> None:
    """Save the state of a buffer.

    Args:
        path: the folder.
        storage: the state of its storage.
        state: everything else, which `torch.load(weights_only=True)` can read again.

    Raises:
        OSError: it can't be written. What was saved there before is as it was.
    """
    path.mkdir(parents=True, exist_ok=True)
    before = _saved_folder(path)
    folder = path / str(1 if before is None else int(before.name) + 1)
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was killed
    try:
        folder.mkdir()
        _write_rows(folder, storage, _files_of(before))
        save_values(folder / "state.pt", state)
        sync_folder(folder)
        replace_file(path / _MANIFEST, json.dumps({"folder": folder.name}).encode())
    except BaseException:
        if _saved_folder(path) != folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def link_saved(earlier: Path, path: Path) -> None:
    """Let a folder begin with what was saved in another, by other names of the same files.

    Nothing happens where no buffer was saved, or where the disk has no such names.

    Args:
        earlier: the other folder; it stays as it is.
        path: the folder, which is not there.
    """
    if _saved_folder(earlier) is None:
        return
    try:
        shutil.copytree(earlier, path, copy_function=os.link)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def load_state(path: Path) -> dict[str, Any]:
    """The state that `save_state` saved in a folder, that of the storage as `"_storage"`.

    Tensors of rows are tuples of their parts, mapped from the files.

    Raises:
        FileNotFoundError: none was saved there.
        OSError: a file is not what was written: its size, or the digest of what it holds, is another one.
    """
    folder = _saved_folder(path)
    if folder is None:
        raise FileNotFoundError(f"no replay buffer was saved in {path}")
    state = load_values(folder / "state.pt")
    return {**state, "_storage": _read_rows(folder)}


def _saved_folder(path: Path) -> Path | None:
    manifest = path / _MANIFEST
    if not manifest.is_file():
        return None
    return path / str(json.loads(manifest.read_text(encoding="utf-8"))["folder"])


def _files_of(folder: Path | None) -> dict[str, Path]:
    """The files of rows in a folder, by the digest of what they hold."""
    if folder is None or not (folder / _ROWS).is_file():
        return {}
    entries = json.loads((folder / _ROWS).read_text(encoding="utf-8"))["_storage"]
    return {
        digest: folder / _file_name(number, part)
        for number, entry in enumerate(entries)
        for part, digest in enumerate(entry["digests"])
    }


def _file_name(number: int, part: int) -> str:
    return f"{number}.{part}.rows"


def _write_rows(folder: Path, storage: dict[str, Any], known: dict[str, Path]) -> None:
    leaves: dict[tuple[str, ...], Tensor] | list[Any] = storage["_storage"]
    if isinstance(leaves, list):
        save_values(folder / _LISTED, storage)
        return
    entries = []
    for number, (key, leaf) in enumerate(leaves.items()):
        rows, digests = _rows_of_a_file(leaf), []
        for part, first in enumerate(range(0, len(leaf), rows) if leaf.numel() else ()):
            content = _bytes_of(leaf[first : first + rows].detach().contiguous().cpu())
            digests.append(hashlib.sha256(content).hexdigest())
            _keep(folder / _file_name(number, part), content, known.get(digests[-1]))
        entries.append(
            {
                "key": key,
                "shape": list(leaf.shape),
                "dtype": dtype_name(leaf.dtype),
                "rows": rows,
                "digests": digests,
            }
        )
    write_file(folder / _ROWS, json.dumps({**storage, "_storage": entries}).encode())


def _bytes_of(values: Tensor) -> memoryview:
    """What stands in memory of a contiguous tensor of the CPU."""
    return values.reshape(-1).view(torch.uint8).numpy().data


def _rows_of_a_file(leaf: Tensor) -> int:
    """How many rows a file has: the same while a buffer fills, until there would be too many files; then twice as many."""
    size = leaf.numel() * leaf.element_size()
    whole = _LEAST
    while size > whole * _FILES:
        whole *= 2
    return max(1, whole * len(leaf) // size) if size else 1


def _keep(file: Path, content: Any, same: Path | None) -> None:
    """Give the file that holds the same another name, or write it."""
    if same is not None:
        try:
            os.link(same, file)
            return
        except OSError:  # it is gone, or the disk has no such links
            file.unlink(missing_ok=True)
    write_file(file, content)


def _read_rows(folder: Path) -> dict[str, Any]:
    if (folder / _LISTED).is_file():
        return load_values(folder / _LISTED)
    storage: dict[str, Any] = json.loads((folder / _ROWS).read_text(encoding="utf-8"))
    leaves = {
        tuple(entry["key"]): tuple(_read(folder, number, entry))
        for number, entry in enumerate(storage["_storage"])
    }
    return {**storage, "_storage": leaves}


def _read(folder: Path, number: int, entry: dict[str, Any]) -> Iterator[Tensor]:
    """The parts of a tensor, one behind the other."""
    length, *shape = entry["shape"]
    dtype: torch.dtype = getattr(torch, entry["dtype"])
    if not entry["digests"]:
        yield torch.empty([length, *shape], dtype=dtype)
    for part, digest in enumerate(entry["digests"]):
        rows = min(entry["rows"], length - part * entry["rows"])
        size = rows * torch.Size(shape).numel()
        file = folder / _file_name(number, part)
        if file.stat().st_size != size * dtype.itemsize:
            raise OSError(f"{file} has {file.stat().st_size} bytes, and {size * dtype.itemsize} were written")
        values = torch.from_file(str(file), shared=False, size=size, dtype=dtype)
        if hashlib.sha256(_bytes_of(values)).hexdigest() != digest:
            raise OSError(f"{file} is not what was written: its digest is another one")
        yield values.reshape(rows, *shape)
