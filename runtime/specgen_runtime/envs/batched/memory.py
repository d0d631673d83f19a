"""Memory that processes share: a file mapped by each of them, whose name is gone as soon as all have it."""

from __future__ import annotations

import contextlib
import os
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
        OSError: there is no room for it.
    """

    def __init__(self, nbytes: int, *, on_disk: bool = False) -> None:
        in_memory = not on_disk and os.access(_FAST, os.W_OK)
        handle, self.path = tempfile.mkstemp(prefix="specgen-envs-", dir=_FAST if in_memory else None)
        try:
            # Claimed now: a file that is only as long as it should be fails with SIGBUS when it is written to.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, nbytes)
            else:
                os.truncate(handle, nbytes)
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


def mapped(path: str, nbytes: int) -> torch.Tensor:
    """Map a file: uint8 `(nbytes,)`, shared with whoever maps it too."""
    return torch.from_file(path, shared=True, size=nbytes, dtype=torch.uint8)
