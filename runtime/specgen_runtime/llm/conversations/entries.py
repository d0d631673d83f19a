"""What wrappers read from tensordicts and write to them: rows of tokens, texts and conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from tensordict import (
    MetaData,
    NonTensorData,
    TensorDict,
    TensorDictBase,
    is_non_tensor,
    is_tensorclass,
    lazy_stack,
)
from torch import Tensor

from specgen_runtime.llm.conversations.messages import Chat, chats_of
from specgen_runtime.objectives.keys import listed
from specgen_runtime.ragged import Ragged, leaves, rows_at, sizes_of
from specgen_runtime.typing import NestedKey

__all__ = [
    "Sequences",
    "behind_prompts",
    "chats_at",
    "in_places",
    "mask_at",
    "texts_at",
    "tokens_at",
    "write_rows",
    "written_to",
]


class Sequences(NamedTuple):
    """Tokens of the rows of a batch, padded to one width: ``[rows, width]`` each."""

    ids: Tensor
    """int64"""
    attention: Tensor
    """bool, what is no padding"""
    assistant: Tensor | None = None
    """bool, what the assistant said; None if it is not known"""
    text: Sequence[str] | None = None
    """of each row; None if it is not known"""

    def rows(self) -> list[Tensor]:
        """The tokens of each row, without padding."""
        return [ids[kept] for ids, kept in zip(self.ids, self.attention, strict=True)]


def chats_at(data: TensorDictBase, key: NestedKey) -> list[Chat]:
    """The conversation of each row.

    Raises:
        KeyError: there is no such entry.
    """
    value = _entry(data, key)
    return chats_of([value.data] if isinstance(value, NonTensorData) and not data.batch_dims else value)


def texts_at(data: TensorDictBase, key: NestedKey) -> list[str]:
    """The text of each row.

    Raises:
        KeyError: there is no such entry.
        TypeError: it is not a text for each row.
    """
    value = _entry(data, key)
    texts = leaves(value.tolist() if is_non_tensor(value) else value)
    if isinstance(value, NonTensorData) and data.batch_dims and len(texts) == 1:
        texts *= data.numel()  # equal ones are kept once
    if len(texts) != data.numel() or not all(isinstance(text, str) for text in texts):
        kinds = ", ".join(sorted({type(text).__name__ for text in texts}))
        raise TypeError(f"{key!r} is one string for each of {data.numel()} rows, got {len(texts)} of {kinds}")
    return texts


def tokens_at(
    data: TensorDictBase,
    key: NestedKey,
    masks: Sequence[NestedKey],
    side: str = "right",
    width: int | None = None,
) -> Sequences | None:
    """The tokens of each row; None if there are none.

    Args:
        data: holds them.
        key: of the tokens: a tensor, or rows of different lengths.
        masks: where the mask of what is no padding may be, the first one that is there. Without any, all tokens of a
            tensor are attended: ids do not tell padding from what was said.
        side: where rows of different lengths are padded; tensors are left as they are.
        width: to which, and that of tensors; None for the longest row's.

    Raises:
        TypeError: the tokens are no integers.
        ValueError: tokens and mask have different shapes, or a tensor has another width.
    """
    value = rows_at(data, key)
    if value is None:
        return None
    if isinstance(value, list):
        ragged = Ragged.of(value)
        return Sequences(ragged.padded(0, side, width), ragged.mask(side, width))
    if value.is_floating_point() or value.is_complex():
        raise TypeError(f"tokens at {key!r} are whole numbers, got {value.dtype}")
    if value.ndim != data.batch_dims + 1:
        raise ValueError(
            f"tokens at {key!r} are [*batch, tokens], the batch being {list(data.batch_size)}; got {list(value.shape)}"
        )
    if width is not None and value.shape[-1] != width:
        raise ValueError(
            f"tokens at {key!r} are {value.shape[-1]} wide, and pad_to={width}: give it to the wrapper that writes them, too"
        )
    ids = value.reshape(value.shape[:-1].numel(), value.shape[-1])
    found = next((mask for mask in (rows_at(data, name) for name in masks) if mask is not None), None)
    if found is None:
        return Sequences(ids, torch.ones_like(ids, dtype=torch.bool))
    if not isinstance(found, Tensor) or found.shape != value.shape:
        raise ValueError(f"tokens at {key!r} are {list(value.shape)}, their mask {sizes_of(found)}")
    return Sequences(ids, found.reshape(ids.shape).bool())


def mask_at(data: TensorDictBase, key: NestedKey, like: Sequences) -> Tensor | None:
    """A mask of tokens that were read, ``[rows, width]``; None if there is none of their shape."""
    value = rows_at(data, key)
    found = None if value is None else in_places(value, like.attention)
    return None if found is None else found.bool()


def in_places(value: Tensor | list[Tensor], attention: Tensor) -> Tensor | None:
    """Values of tokens in the places of these, ``[rows, width]``, 0 elsewhere; None if they are of other tokens.

    Args:
        value: of all places, or rows without padding.
        attention: bool ``[rows, width]``, what is no padding.
    """
    if isinstance(value, Tensor):
        return value.reshape(attention.shape) if value.numel() == attention.numel() else None
    if sizes_of(value) != attention.sum(-1).tolist():
        return None
    flat = torch.cat(value)
    return flat.new_zeros(attention.shape).index_put((attention,), flat)


def behind_prompts(data: TensorDictBase, key: NestedKey, like: Sequences) -> Tensor | None:
    """What follows the prompts, of tokens that were read: bool ``[rows, width]``; None if the data have no prompts.

    Args:
        data: holds the prompts: a tensor, as wide as the prompts in the whole sequences are with their padding; or rows.
        key: of the prompts.
        like: the whole sequences.

    Raises:
        ValueError: prompts are padded to the width of the whole sequences, which does not tell where answers begin.
    """
    prompts = rows_at(data, key)
    if prompts is None:
        return None
    device = like.ids.device
    if isinstance(prompts, list):
        lengths = torch.tensor([len(row) for row in prompts], device=device)
        return like.attention.cumsum(-1) > lengths[:, None]
    width = like.ids.shape[-1]
    if prompts.shape[-1] >= width > 0:
        raise ValueError(
            f"{key!r} is {prompts.shape[-1]} tokens wide, and the whole sequences are {width}: it is not known where answers "
            "begin; keep the mask of what the assistant said (masks.all_assistant_mask)"
        )
    behind = torch.arange(width, device=device) >= prompts.shape[-1]
    return behind.expand_as(like.attention)


def write_rows(
    data: TensorDictBase,
    key: NestedKey,
    kind: Any,
    columns: Mapping[str, tuple[Tensor, Tensor]],
    *,
    padded: bool,
) -> None:
    """Write tensors of tokens into a container of a tensordict.

    Args:
        data: with a batch of as many rows.
        key: of the container, which keeps its other entries.
        kind: its class.
        columns: its entries, ``[rows, width]``, with the mask of what is no padding.
        padded: whether they stay so wide; otherwise each row is as long as it is.
    """
    size = data.batch_size
    before = data.get(key, None)
    if padded:
        entries: Any = TensorDict(
            {name: value.reshape(*size, value.shape[-1]) for name, (value, _) in columns.items()}, size
        )
        if before is not None:  # perhaps of rows of different lengths
            plain = before._tensordict if is_tensorclass(before) else before
            entries = plain.copy().update(entries)
    else:
        rows = [
            {name: value[row][kept[row]] for name, (value, kept) in columns.items()}
            for row in range(size.numel())
        ]
        old = [] if before is None else list(before.reshape(-1).unbind(0)) if size else [before]
        parts = [
            TensorDict(old[row].to_tensordict(retain_none=False).to_dict() if old else {}).update(entries)
            for row, entries in enumerate(rows)
        ]
        entries = _stacked(parts, size)
    entries.set("padded", MetaData(padded))
    data.set(key, kind._from_tensordict(entries))


def _stacked(parts: Sequence[TensorDictBase], size: Sequence[int]) -> TensorDictBase:
    """A lazy stack of rows, of several dimensions the last varies fastest."""
    if not size:
        return parts[0]
    width = len(parts) // size[0]
    stack: TensorDictBase = lazy_stack(
        [_stacked(parts[k * width : (k + 1) * width], size[1:]) for k in range(size[0])]
    )
    return stack


def written_to(
    data: TensorDictBase, out: TensorDictBase | None, inplace: bool | str | None, samples: int | None
) -> TensorDictBase:
    """The tensordict that is written to.

    Args:
        data: what was read.
        out: a tensordict that the caller wants to be written to.
        inplace: False for a copy with the same entries, ``"empty"`` for one without; else the data themselves.
        samples: answers to each row: the result has a further dimension of so many.
    """
    if samples is not None:
        data = data.empty() if inplace == "empty" else data
        size = torch.Size((*data.batch_size, samples))
        return data.unsqueeze(-1).expand(size).copy() if out is None else out
    if out is not None:
        return out
    if inplace == "empty":
        return data.empty()
    return data.copy() if inplace is False else data


def _entry(data: TensorDictBase, key: NestedKey) -> Any:
    value = data.get(key, None)
    if value is None:
        raise KeyError(
            f"a language model reads {key!r}, which is not in the tensordict; it holds {listed(data)}"
        )
    return value
