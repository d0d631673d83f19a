"""Saving the state of a replay buffer in a folder: all of it, or nothing.

The folder holds one numbered folder for what was saved last, and a file that names it and is replaced when everything
else is on the disk. Rows are raw bytes, one file for each tensor; those that a storage keeps in a list are one file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.durable import replace_file, save_values, sync_folder, write_file

__all__ = ["load_state", "save_state"]

_MANIFEST = "saved.json"
_LISTED = "rows.pt"


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
        _write_rows(folder, storage)
        save_values(folder / "state.pt", state)
        sync_folder(folder)
        replace_file(path / _MANIFEST, json.dumps({"folder": folder.name}).encode())
    except BaseException:
        if _saved_folder(path) != folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def load_state(path: Path) -> dict[str, Any]:
    """The state that `save_state` saved in a folder, that of the storage as `"_storage"`.

    Raises:
        FileNotFoundError: none was saved there.
    """
    folder = _saved_folder(path)
    if folder is None:
        raise FileNotFoundError(f"no replay buffer was saved in {path}")
    state: dict[str, Any] = torch.load(folder / "state.pt", weights_only=True, map_location="cpu")
    return {**state, "_storage": _read_rows(folder)}


def _saved_folder(path: Path) -> Path | None:
    manifest = path / _MANIFEST
    if not manifest.is_file():
        return None
    return path / str(json.loads(manifest.read_text(encoding="utf-8"))["folder"])


def _write_rows(folder: Path, storage: dict[str, Any]) -> None:
    leaves: dict[tuple[str, ...], Tensor] | list[Any] = storage["_storage"]
    if isinstance(leaves, list):
        save_values(folder / _LISTED, storage)
        return
    entries = []
    for number, (key, leaf) in enumerate(leaves.items()):
        rows = leaf.detach().contiguous().cpu()
        write_file(folder / f"{number}.rows", rows.reshape(-1).view(torch.uint8).numpy().data)
        entries.append(
            {"key": key, "shape": list(leaf.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
        )
    described = {**storage, "_storage": entries}
    write_file(folder / "rows.json", json.dumps(described).encode())


def _read_rows(folder: Path) -> dict[str, Any]:
    if (folder / _LISTED).is_file():
        listed: dict[str, Any] = torch.load(folder / _LISTED, weights_only=True, map_location="cpu")
        return listed
    storage: dict[str, Any] = json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    leaves = {
        tuple(entry["key"]): _read(folder / f"{number}.rows", entry["shape"], getattr(torch, entry["dtype"]))
        for number, entry in enumerate(storage["_storage"])
    }
    return {**storage, "_storage": leaves}


def _read(file: Path, shape: list[int], dtype: torch.dtype) -> Tensor:
    size = torch.Size(shape).numel()
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_file(str(file), shared=False, size=size, dtype=dtype).reshape(shape)
