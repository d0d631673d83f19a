"""`WrittenEntries`: what a network of a loss wrote, each entry by its key."""

from __future__ import annotations

from typing import Protocol

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.ragged import Ragged, rows_at
from specgen_runtime.typing import NestedKey

__all__ = ["WrittenEntries"]


class _Network(Protocol):
    name: str

    @property
    def out_keys(self) -> list[NestedKey]: ...


class WrittenEntries:
    """What a network wrote in one run. An entry that it did not write is an error when it is asked for, not before.

    Args:
        network: which wrote it.
        entries: what it wrote, and perhaps what it read.
    """

    def __init__(self, network: _Network, entries: TensorDictBase) -> None:
        self._network, self._entries = network, entries

    def __getitem__(self, key: NestedKey) -> Tensor:
        """Return the entry of a key; rows of different lengths are padded on the left, as those of the data are.

        Raises:
            KeyError: if the network did not write it.
        """
        try:
            value = self._entries.get(key, None)
        except RuntimeError:  # of rows that do not stack
            rows = rows_at(self._entries, key)
            assert isinstance(rows, list)
            value = Ragged.of(rows).padded(0, "left").reshape(*self._entries.batch_size, -1)
        if not isinstance(value, Tensor):
            raise KeyError(
                f"network {self._network.name} does not write {key!r}; "
                f"it writes {', '.join(map(repr, self._network.out_keys))}"
            )
        return value
