"""Files that are on the disk when the call returns, or not there: what checkpoints and saved buffers are written with."""

from __future__ import annotations

import os
import pickle
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

__all__ = ["load_values", "replace_file", "save_values", "sync_folder", "write_file"]


def write_file(file: Path, content: Any) -> None:
    """Write a file through to the disk.

    Args:
        file: where.
        content: bytes, or a buffer of bytes.

    Raises:
        OSError: there is no space left, for example.
    """
    with open(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def save_values(file: Path, values: dict[str, Any]) -> None:
    """Write tensors and plain values, for `torch.load(weights_only=True)`, through to the disk.

    Raises:
        OSError: there is no space left, for example.
    """
    written = BytesIO()  # torch ends the process, or hides the error, where a disk is full
    torch.save(values, written)
    write_file(file, written.getbuffer())


def load_values(file: Path) -> dict[str, Any]:
    """Read what `save_values` wrote, on the CPU; torch alone takes values whose bytes are others now.

    Raises:
        OSError: the file is not there, or is not what was written.
    """
    try:
        with zipfile.ZipFile(file) as records:
            if (damaged := records.testzip()) is not None:
                raise zipfile.BadZipFile(f"the checksum of {damaged} is another one")
        values: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
    except (RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise OSError(f"{file} is not what was written") from error
    return values


def replace_file(file: Path, content: bytes) -> None:
    """Put a file in the place of another, at once: whoever looks sees one of the two, also after a crash.

    Raises:
        OSError: it can't be written; the other is as it was.
    """
    new = file.with_name(f"{file.name}.new")
    try:
        write_file(new, content)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    os.replace(new, file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder through to the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
