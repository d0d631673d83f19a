"""Where a transform keeps its statistics: with its copies in this process, or with other processes in a file in memory."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.typing import Array

__all__ = ["NotLearnedError", "Statistics", "kept_value"]

_FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
_ALIGNMENT = 16
_ALONE = contextlib.nullcontext()

Layout = list[tuple[str, torch.dtype, tuple[int, ...], int]]
"""Names, dtypes, shapes, and where in the file each begins."""


class NotLearnedError(RuntimeError):
    """A statistic is read that has no value yet."""


class Statistics:
    """The values of a transform and of all copies of it that share them.

    Attributes:
        frozen: whether nobody may change them, in this process.
        borrowed: whether they are those of others, which learn them.
    """

    def __init__(self) -> None:
        self._values: dict[str, Tensor] = {}
        self._newer: dict[str, Array] = {}
        """What was put as arrays, of which nobody has asked for the tensors yet."""
        self.frozen = False
        self.borrowed = False
        self._readers: weakref.WeakSet[Statistics] = weakref.WeakSet()
        self._path: str | None = None
        self._file: Any = None
        self._threads = threading.RLock()
        self._depth = 0

    @property
    def values(self) -> dict[str, Tensor]:
        """By name; changed in place where processes share them, else replaced."""
        if self._newer:
            self._values.update((name, torch.from_numpy(array)) for name, array in self._newer.items())
            self._newer.clear()
        return self._values

    @property
    def shared(self) -> bool:
        """Whether other processes may change the values."""
        return self._path is not None

    def read_only(self) -> Statistics:
        """The same values, for one who only reads them; what others of this process learn, it has.

        Raises:
            RuntimeError: processes share the values.
        """
        if self.shared:
            raise RuntimeError("processes share these statistics: `freeze` is for all copies in this process")
        twin = Statistics()
        twin._values, twin._newer, twin.frozen, twin.borrowed = self._values, self._newer, True, True
        self._readers.add(twin)
        return twin

    def put(self, name: str, value: Tensor) -> None:
        """Replace a value; where processes share it, in their memory."""
        if self.shared:
            self.values[name].copy_(value)
        else:
            self.values[name] = value

    def array(self, name: str) -> Array:
        """A value as an array, which others may change where processes share it."""
        newer = self._newer.get(name)
        return self._values[name].numpy() if newer is None else newer

    def put_array(self, name: str, array: Array) -> None:
        """`put` an array of the value's dtype and shape, whose memory nobody changes."""
        if self.shared:
            self._values[name].copy_(torch.from_numpy(array))
        else:
            self._newer[name] = array

    def load(self, loaded: Mapping[str, Tensor], dtypes: Mapping[str, torch.dtype | None]) -> dict[str, str]:
        """Replace values by copies of others, all of which have a place here.

        Args:
            loaded: the other values, by name.
            dtypes: the dtype of each that is not here yet; None: as it comes.

        Returns:
            What is wrong with values of another shape, or of what only others learn, which are left out, by name.
        """
        problems = {}
        with torch.no_grad(), self.locked():
            for name, value in loaded.items():
                held = self.values.get(name)
                if self.borrowed and (held is None or not torch.equal(held.cpu(), value.to(held).cpu())):
                    problems[name] = (
                        "other values than those that this environment reads, and others learn: load them into one of these"
                    )
                elif held is None:
                    self.values[name] = value.detach().clone().to(dtype=dtypes[name] or value.dtype)
                elif held.shape != value.shape:
                    problems[name] = f"the shape {list(value.shape)}, where {list(held.shape)} is wanted"
                else:
                    self.put(name, value.detach().to(held, copy=True))
        return problems

    def locked(self) -> AbstractContextManager[None]:
        """Keep others from reading and writing meanwhile, if processes share the values; may be nested."""
        return _ALONE if self._file is None else self._locked()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._threads:
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def share(self) -> None:
        """Move the values into a file that copies in other processes open, too.

        Raises:
            RuntimeError: there is no value, one is not in the memory of the CPU, or others read the values, or only read
                those of others.
        """
        if self.shared:
            return
        if self.borrowed or len(self._readers):
            raise RuntimeError(
                "environments of this process learn these statistics, and others read them (CommonStatistics): processes "
                "can't share them, too"
            )
        elsewhere = [name for name, value in self.values.items() if value.device.type != "cpu"]
        if elsewhere or not self.values:
            what = (
                f"{elsewhere[0]!r} is on {self.values[elsewhere[0]].device}"
                if elsewhere
                else "there are none"
            )
            raise RuntimeError(f"processes share statistics in the memory of the CPU, but {what}")
        layout, size = self._layout()
        number, path = tempfile.mkstemp(prefix="specgen-statistics-", dir=_FOLDER)
        os.truncate(number, size)
        os.close(number)
        weakref.finalize(self, _remove, path, os.getpid())
        old = self.values
        self._open(path, layout)
        for name, value in old.items():
            self.values[name].copy_(value)

    def _layout(self) -> tuple[Layout, int]:
        layout: Layout = []
        size = 0
        for name, value in self.values.items():
            layout.append((name, value.dtype, tuple(value.shape), size))
            size += math.ceil(max(1, value.nbytes) / _ALIGNMENT) * _ALIGNMENT
        return layout, size

    def _open(self, path: str, layout: Layout) -> None:
        self._path = path
        self._file = open(path, "r+b")  # noqa: SIM115 (open as long as this object is)
        whole = torch.from_file(path, shared=True, size=os.path.getsize(path), dtype=torch.uint8)
        self._values = {}
        for name, dtype, shape, start in layout:
            length = math.prod(shape) * dtype.itemsize
            self._values[name] = whole[start : start + length].view(dtype).reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        if self._path is None:
            return {"values": self.values, "frozen": self.frozen}
        return {"path": self._path, "layout": self._layout()[0], "frozen": self.frozen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.frozen = state["frozen"]
        if "path" in state:
            self._open(state["path"], state["layout"])
        else:
            self._values = state["values"]

    def __deepcopy__(self, memo: dict[int, Any]) -> Statistics:
        """A copy of its own, which nobody shares."""
        twin = memo[id(self)] = Statistics()
        twin.frozen = self.frozen
        with self.locked():
            twin._values = {name: value.clone() for name, value in self.values.items()}
        return twin


def _remove(path: str, process: int) -> None:
    """Remove the file, in the process that made it; who has it open keeps it."""
    if os.getpid() == process:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def kept_value(value: Tensor, old: Tensor, learned: Tensor | None, data: Sequence[Tensor]) -> Tensor:
    """What is kept of a new value: of the old one's dtype and shape, without gradients, and no part of the data.

    Args:
        value: the new value.
        old: the one before.
        learned: whether anything was learned, a bool tensor; None: yes.
        data: what it was learned from, which may be written to later.
    """
    if learned is not None:
        value = torch.where(learned, value, old)
    if value._base is not None or any(value is one for one in data):
        value = value.clone()
    if value.dtype is not old.dtype or value.shape != old.shape:
        value = value.to(old.dtype).expand(old.shape)
    return value.detach()
