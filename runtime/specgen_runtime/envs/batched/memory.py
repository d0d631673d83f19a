"""Memory that processes share: a file mapped by each of them, whose name is gone as soon as all have it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path

import torch

__all__ = ["SharedMemory"]

_FAST = Path("/dev/shm")


class SharedMemory:
    """A block of zeros that other processes can map.

    Args:
        nbytes: its size.
        on_disk: map a file in the folder for temporary files, rather than one in memory.

    Attributes:
        block: uint8 `(nbytes,)`.
        path: what others map; until `unlink`.

    Raises:
        OSError: there is no room for it; says how much is needed, how much is free, and what to do.
    """

    def __init__(self, nbytes: int, *, on_disk: bool = False) -> None:
        in_memory = not on_disk and os.access(_FAST, os.W_OK)
        handle, self.path = tempfile.mkstemp(prefix="specgen-envs-", dir=_FAST if in_memory else None)
        try:
            _claim(handle, nbytes, self.path, in_memory=in_memory)
            self.block = mapped(self.path, nbytes)
        except BaseException:
            self.unlink()
            raise
        finally:
            os.close(handle)

    def unlink(self) -> None:
        """Take the file's name away; the memory lives as long as somebody has it mapped."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def _claim(handle: int, nbytes: int, path: str, *, in_memory: bool) -> None:
    """Give a file its size, all of it there: a file that is only said to be so long ends the writer with SIGBUS."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, nbytes)
        else:
            os.truncate(handle, nbytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        folder = Path(path).parent
        free = shutil.disk_usage(folder).free
        if in_memory:
            ways = (
                "make it larger (docker run --shm-size=...), or pass shared_memory=False, memmap=True (a file in"
                f" {tempfile.gettempdir()}) or use_buffers=False (pipes, which need no room)"
            )
        else:
            ways = "let TMPDIR name a folder with more room, or pass use_buffers=False (pipes, which need no room)"
        raise OSError(
            error.errno,
            f"the environments' data take {nbytes:,} bytes, and {folder} has {free:,} bytes free: {ways}",
        ) from None


def mapped(path: str, nbytes: int) -> torch.Tensor:
    """Map a file: uint8 `(nbytes,)`, shared with whoever maps it too."""
    with torch.inference_mode(False):  # see `BufferLayout.views`
        return torch.from_file(path, shared=True, size=nbytes, dtype=torch.uint8)
