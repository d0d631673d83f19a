"""`CompressedListStorage`: keeps rows that are compressed, such as images."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypedDict

import torch
from tensordict import is_tensor_collection
from torch import Tensor

from specgen_runtime.data.list_storages import ListStorage
from specgen_runtime.data.plain_values import from_plain, to_plain
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["CompressedListStorage"]


class TensorFacts(TypedDict):
    """What a compressed tensor was."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


class _Compressed(NamedTuple):
    """A tensor as it is kept."""

    content: Tensor
    facts: TensorFacts


class _Row(NamedTuple):
    """A tensor, tensordict or tensorclass as `to_plain` gives it, with compressed tensors."""

    plain: Any


class CompressedListStorage(ListStorage):
    """A `ListStorage` that compresses the tensors of its rows: images take less memory, and writing and sampling more time.

    Tensors of nested tensordicts are compressed as well. Objects are kept as they are; in tensordicts they are text, numbers,
    and lists, tuples and dicts of these. What is saved is not compressed.

    Args:
        max_size: how many rows; None: as many as fit into memory.
        compression_fn: makes a uint8 tensor of a tensor; None: `zlib`'s.
        decompression_fn: makes that tensor of it, given also its `"shape"`, `"dtype"` and `"device"` as a dict.
        compression_level: of `zlib`, from 0, none, to 9, the smallest result.
        device: where sampled tensors are; None: where they were when they came.

    Raises:
        ValueError: only one of the functions is given, or the level is none of `zlib`'s.
    """

    def __init__(
        self,
        max_size: int | None = None,
        *,
        compression_fn: Callable[[Tensor], Tensor] | None = None,
        decompression_fn: Callable[[Tensor, TensorFacts], Tensor] | None = None,
        compression_level: int = 3,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if (compression_fn is None) is not (decompression_fn is None):
            raise ValueError("compression_fn and decompression_fn are given together")
        if not 0 <= compression_level <= 9:
            raise ValueError(f"compression_level must be between 0 and 9, got {compression_level}")
        super().__init__(max_size, device=device)
        self.compression_level = compression_level
        self.compression_fn = compression_fn or self._compress
        self.decompression_fn = decompression_fn or _decompress

    @property
    def nbytes(self) -> int:
        """How many bytes the compressed tensors have."""
        return sum(content.nbytes for content in _contents(self._kept))

    def _compress(self, tensor: Tensor) -> Tensor:
        plain = tensor.cpu().resolve_conj().resolve_neg()  # numbers as they are, no view that negates them
        content = plain.reshape(-1).contiguous().view(torch.uint8).numpy().data
        made = bytearray(zlib.compress(content, level=self.compression_level))
        return torch.frombuffer(made, dtype=torch.uint8)

    def _packed(self, row: Any) -> Any:
        if not (isinstance(row, Tensor) or is_tensor_collection(row)):
            return row
        moved = row if self.device is None else row.to(self.device)
        return _Row(_changed(to_plain(moved.detach()), self._packed_tensor))

    def _packed_tensor(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        facts: TensorFacts = {"shape": value.shape, "dtype": value.dtype, "device": value.device}
        return _Compressed(self.compression_fn(value), facts)

    def _read(self, place: int, *, copied: bool = True) -> Any:
        row = self._kept[place]
        return from_plain(_changed(row.plain, self._unpacked_tensor)) if isinstance(row, _Row) else row

    def _unpacked_tensor(self, value: Any) -> Any:
        if not isinstance(value, _Compressed):
            return value
        return self.decompression_fn(value.content, value.facts)


def _decompress(content: Tensor, facts: TensorFacts) -> Tensor:
    made = torch.empty(facts["shape"], dtype=facts["dtype"])
    if made.numel():
        whole = bytearray(zlib.decompress(content.cpu().numpy().data))
        made = torch.frombuffer(whole, dtype=facts["dtype"]).reshape(facts["shape"])
    return made.to(facts["device"])


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """A plain value, of which everything is changed that is no dict, list or tuple."""
    if type(value) is dict:
        return {key: _changed(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_changed(entry, change) for entry in value)
    return change(value)


def _contents(value: Any) -> Iterator[Tensor]:
    """The compressed tensors of what is kept."""
    if isinstance(value, _Compressed):
        yield value.content
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _contents(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _contents(entry)
