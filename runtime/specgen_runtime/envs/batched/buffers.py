"""Which entries of an environment fit into memory of fixed size, and where in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDict

from specgen_runtime.envs.batched.description import Description
from specgen_runtime.envs.keys import join_key
from specgen_runtime.envs.packing import fast_td
from specgen_runtime.specs import Composite, NonTensor, StackedComposite, TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["BufferEntry", "BufferLayout", "pack"]

_ALIGNMENT = 64


@dataclass(frozen=True)
class BufferEntry:
    """An entry of fixed shape and dtype.

    Attributes:
        path: its key.
        shape: with the environment's own batch size in front.
        dtype: its dtype.
    """

    path: tuple[str, ...]
    shape: torch.Size
    dtype: torch.dtype

    @cached_property
    def key(self) -> NestedKey:
        """The path as a key of tensordicts."""
        return join_key(self.path)

    def bytes(self, count: int) -> int:
        """The memory that `count` of them take, up to where the next can begin."""
        size = count * math.prod(self.shape) * self.dtype.itemsize
        return -(-size // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True)
class BufferLayout:
    """The entries of fixed shape of an environment, by what they are for.

    Attributes:
        inputs: what is written before each step: actions and state.
        roots: what a reset gives: observations and done flags.
        nexts: the entries of `"next"`.
        shared: for each of `roots`, which of `nexts` has the same key.
        sizes: batch sizes of nested tensordicts, by path, without the environment's own where that is all.
        complete: whether all inputs of a step fit.
    """

    inputs: tuple[BufferEntry, ...]
    roots: tuple[BufferEntry, ...]
    nexts: tuple[BufferEntry, ...]
    shared: tuple[int, ...]
    sizes: dict[tuple[str, ...], torch.Size]
    complete: bool

    @classmethod
    def of(cls, description: Description) -> BufferLayout:
        """Find what fits in an environment's data."""
        groups = {name: dict(_fixed(spec, ())) for name, spec in description.specs.items()}
        sizes = {path: size for spec in description.specs.values() for path, size in _nested_sizes(spec, ())}
        inputs = {**groups["full_action_spec"], **groups["full_state_spec"]}
        observed = {**groups["full_observation_spec"], **groups["full_done_spec"]}
        roots = _present(observed)
        nexts = _present({**observed, **groups["full_reward_spec"]})
        places = {buffer.path: i for i, buffer in enumerate(nexts)}
        return cls(
            inputs=_present(inputs),
            roots=roots,
            nexts=nexts,
            shared=tuple(places[buffer.path] for buffer in roots),
            sizes=sizes,
            complete=all(buffer is not None for buffer in inputs.values()),
        )

    @cached_property
    def seen(self) -> tuple[int, ...]:
        """The places among `roots` of those that are no inputs: a step may look at them, but need not."""
        inputs = {buffer.path for buffer in self.inputs}
        return tuple(i for i, buffer in enumerate(self.roots) if buffer.path not in inputs)

    def nbytes(self, count: int) -> int:
        """The memory for `count` environments."""
        return sum(buffer.bytes(count) for buffer in (*self.inputs, *self.roots, *self.nexts)) or _ALIGNMENT

    def views(self, memory: torch.Tensor, count: int) -> tuple[list[torch.Tensor], ...]:
        """The tensors of all buffers in a block of memory, each `(count, *shape)`: inputs, roots, nexts."""
        at = 0
        found: list[list[torch.Tensor]] = []
        with torch.inference_mode(False):  # what is made inside it can't be written to outside
            for group in (self.inputs, self.roots, self.nexts):
                tensors = []
                for buffer in group:
                    size = count * math.prod(buffer.shape) * buffer.dtype.itemsize
                    block = memory[at : at + size].view(buffer.dtype)
                    tensors.append(block.view(count, *buffer.shape))
                    at += buffer.bytes(count)
                found.append(tensors)
        return tuple(found)


def _present(buffers: dict[tuple[str, ...], BufferEntry | None]) -> tuple[BufferEntry, ...]:
    return tuple(buffer for buffer in buffers.values() if buffer is not None)


def _fixed(
    spec: TensorSpec | None, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], BufferEntry | None]]:
    """The leaves of a spec; None for those whose size or type is not known ahead, or that are parts of a whole."""
    if isinstance(spec, StackedComposite) or (
        isinstance(spec, Composite) and spec.data_cls not in (None, TensorDict)
    ):
        yield path, None
    elif isinstance(spec, Composite):
        for name, entry in spec.items():
            yield from _fixed(entry, (*path, name))
    elif spec is None or isinstance(spec, NonTensor) or spec.dtype is None or -1 in spec.shape:
        yield path, None
    else:
        yield path, BufferEntry(path, spec.shape, spec.dtype)


def _nested_sizes(spec: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], torch.Size]]:
    if isinstance(spec, Composite) and not isinstance(spec, StackedComposite):
        if path:
            yield path, spec.shape
        for name, entry in spec.items():
            yield from _nested_sizes(entry, (*path, name))


def pack(
    buffers: Sequence[BufferEntry],
    values: Sequence[torch.Tensor],
    sizes: dict[tuple[str, ...], torch.Size],
    lead: torch.Size,
    batch_size: torch.Size,
    device: torch.device | None,
) -> TensorDict:
    """The tensordict of some buffers' values.

    Args:
        buffers: where the values belong.
        values: `(*lead, *buffer.shape)`.
        sizes: the batch sizes of nested tensordicts, without `lead`.
        lead: what stands in front of the buffers' shapes.
        batch_size: of the result, `lead` included.
        device: of the result.
    """
    if not sizes:
        return fast_td(
            {buffer.path[0]: value for buffer, value in zip(buffers, values, strict=True)}, batch_size, device
        )
    tree: dict[str, Any] = {}
    for buffer, value in zip(buffers, values, strict=True):
        branch = tree
        for name in buffer.path[:-1]:
            branch = branch.setdefault(name, {})
        branch[buffer.path[-1]] = value
    return _planted(tree, (), sizes, lead, batch_size, device)


def _planted(
    tree: dict[str, Any],
    path: tuple[str, ...],
    sizes: dict[tuple[str, ...], torch.Size],
    lead: torch.Size,
    batch_size: torch.Size,
    device: torch.device | None,
) -> TensorDict:
    for name, value in tree.items():
        if isinstance(value, dict):
            below = (*path, name)
            inner = torch.Size((*lead, *sizes[below])) if below in sizes else batch_size
            tree[name] = _planted(value, below, sizes, lead, inner, device)
    return fast_td(tree, batch_size, device)
