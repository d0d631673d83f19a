"""`KeptMoments`: where a transform keeps the running moments of its entries."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing.context import get_spawning_popen
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.keys import as_tuple
from specgen_runtime.transforms.running_moments import RunningMoments
from specgen_runtime.transforms.shared_statistics import Statistics
from specgen_runtime.typing import NestedKey

__all__ = ["PARTS", "SEPARATOR", "KeptMoments"]

PARTS = ("loc", "var", "count")
SEPARATOR = ".-|-."


class KeptMoments:
    """The running moments of entries, in this process, in memory that processes share, or in tensors of the user.

    Args:
        keys: the entries.
        per_row: whether each row of a batch has its own.
        lock: is held while they are read or changed.
        given: ``loc``, ``var`` and ``count`` of all entries, which are kept up in place.

    Attributes:
        dtypes: those of the entries that were seen.
    """

    def __init__(
        self,
        keys: Sequence[NestedKey],
        per_row: bool,
        lock: AbstractContextManager[Any] | None = None,
        given: TensorDictBase | None = None,
    ) -> None:
        self._keys, self._per_row, self.lock = list(keys), per_row, lock
        self._statistics = Statistics()
        self._in_place = given is not None
        self.dtypes: dict[NestedKey, torch.dtype] = {}
        if given is not None:
            for part in PARTS:
                for key in keys:
                    self._statistics.values[_name(part, key)] = _given(given, (part, *as_tuple(key)))

    @property
    def _fixed(self) -> bool:
        """Whether others have the tensors as well, which stay what and where they are."""
        return self._in_place or self._statistics.shared

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from reading and writing meanwhile."""
        with ExitStack() as stack:
            if self.lock is not None:
                stack.enter_context(self.lock)
            stack.enter_context(self._statistics.locked())
            yield

    def has(self, key: NestedKey) -> bool:
        """Whether an entry has been seen, or loaded."""
        return _name("loc", key) in self._statistics.values

    def held(self, key: NestedKey, value: Tensor, batch: torch.Size) -> RunningMoments:
        """Those of an entry, which begin when it is first seen.

        Raises:
            ValueError: they are of another shape.
        """
        values = self._statistics.values
        blank = RunningMoments.blank(value, batch, self._per_row)
        names = [_name(part, key) for part in PARTS]
        self.dtypes[key] = value.dtype
        if names[0] not in values:
            values.update(zip(names, blank, strict=True))
        held = [values[name] for name in names]
        for name, one, wanted in zip(names, held, blank, strict=True):
            single = name == names[-1] and not one.ndim  # one number for all rows, as TorchRL has
            if one.shape != wanted.shape and not single:
                rows = f" of the batch size {list(batch)}" if self._per_row else ""
                raise ValueError(
                    f"VecNormV2 has {name!r} of the shape {list(one.shape)}, but {key!r}{rows} asks for"
                    f" {list(wanted.shape)}"
                )
        return RunningMoments(
            *(one.to(value.device, like.dtype) for one, like in zip(held, blank, strict=True))
        )

    def put(self, key: NestedKey, moments: RunningMoments) -> None:
        """Replace those of an entry; in place where others have the tensors.

        Raises:
            ValueError: there is one number of values, and rows of a batch have their own.
        """
        for part, value in zip(PARTS, moments, strict=True):
            held = self._statistics.values[name := _name(part, key)]
            if held.shape != value.shape and self._fixed:
                raise ValueError(
                    f"VecNormV2 counts the values of each row of the batch size {list(value.shape)}, but {name!r}, which"
                    " others have as well, is one number: average over the batch (reduce_batch_dims=True)"
                )
            if self._in_place:
                held.copy_(value)
            else:
                self._statistics.put(name, value)

    def all(self) -> dict[NestedKey, RunningMoments]:
        """Copies of those of all entries, as they are now.

        Raises:
            RuntimeError: an entry has not been seen.
        """
        with self.locked():
            values = self._statistics.values
            if not all(self.has(key) for key in self._keys):
                raise RuntimeError(
                    "VecNormV2 has no statistics of its entries yet: put it into an environment, or load a state dict"
                )
            return {
                key: RunningMoments(*(values[_name(part, key)].clone() for part in PARTS))
                for key in self._keys
            }

    def share(self) -> None:
        """Put them where processes share them."""
        if self._in_place:
            for value in self._statistics.values.values():
                value.share_memory_()  # type: ignore[no-untyped-call]
        else:
            self._statistics.share()

    def twin(self, alone: bool = False) -> KeptMoments:
        """A copy of its own, but for those that processes share unless it is to be `alone`."""
        other = copy.copy(self)
        other.lock = self.lock
        other.dtypes = dict(self.dtypes)
        if alone or not self._statistics.shared:
            other._statistics, other._in_place = copy.deepcopy(self._statistics), False
        return other

    def state(self) -> dict[str, Tensor]:
        """Copies of all, by name."""
        with self.locked():
            return {name: value.detach().clone() for name, value in self._statistics.values.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace them by copies of others.

        Raises:
            RuntimeError: some are missing, of other entries, or of another shape.
        """
        known = {_name(part, key) for part in PARTS for key in self._keys}
        other = [name for name in state if name not in known]
        if other:
            raise RuntimeError(f"what is loaded into VecNormV2 has {other[0]!r}, of which it has no entry")
        missing = [name for name in self._statistics.values if name not in state]
        if missing:
            raise RuntimeError(f"VecNormV2 has {missing[0]!r}, which is not in what is loaded")
        state = dict(state)
        for name, held in list(self._statistics.values.items()):
            # One number for all rows is TorchRL's.
            if name.startswith(PARTS[-1]) and state[name].ndim != held.ndim:
                if not state[name].ndim:
                    state[name] = state[name].expand(held.shape)
                elif not held.ndim and not self._fixed:
                    self._statistics.values[name] = held.expand(state[name].shape)
        dtypes = {name: torch.int64 if name.startswith(PARTS[-1]) else torch.float64 for name in state}
        for name, problem in self._statistics.load(state, dtypes).items():
            raise RuntimeError(f"what is loaded into VecNormV2 has {name!r} of {problem}")

    def move(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Move them to the device where `fn` puts tensors; their dtype stays, and so do those that others have."""
        if not self._fixed:
            for name, value in self._statistics.values.items():
                self._statistics.values[name] = value.to(fn(value).device)

    def __getstate__(self) -> dict[str, Any]:
        # A lock goes to a process that begins, and nowhere else.
        return {**self.__dict__, "lock": None if get_spawning_popen() is None else self.lock}


def _given(shared_data: TensorDictBase, place: tuple[str, ...]) -> Tensor:
    value: Tensor | None = shared_data.get(place, None)
    if value is None:
        raise ValueError(f"shared_data has loc, var and count of all entries, but no {place!r}")
    return value


def _name(part: str, key: NestedKey) -> str:
    return SEPARATOR.join((part, *as_tuple(key)))
