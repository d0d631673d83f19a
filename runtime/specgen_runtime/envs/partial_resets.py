"""Merge the rows that a partial reset or step computed into a tensordict, which keeps its other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor
from torch import Tensor

from specgen_runtime.envs.done import DoneSet, item_mask, masks_for_key, rows_mask
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.specs.stacks.values import join

__all__ = ["merge_reset", "refuse_done_after_reset"]


def merge_reset(
    old: TensorDictBase,
    fresh: TensorDictBase,
    masks: Mapping[DoneSet, Tensor],
    *,
    fill: bool = False,
    what: str = "reset",
) -> None:
    """Write `fresh` into `old`, in place, in the rows that the masks select.

    Args:
        old: the tensordict whose other rows stay.
        fresh: what `_reset` (or `_step`) returned.
        masks: which rows are reset (or stepped).
        fill: take all rows of an entry that `old` lacks from `fresh`.
        what: `"reset"` or `"step"`, for messages.

    Raises:
        KeyError: `old` has no entry whose kept rows are needed, and not `fill`.
        RuntimeError: an entry of `old` has another shape or dtype than the new one.
    """
    _merge(old, fresh, masks, (), old.batch_dims, fill, what)


def _merge(
    old: Any,
    fresh: Any,
    masks: Mapping[DoneSet, Tensor],
    path: tuple[str, ...],
    batch_ndim: int,
    fill: bool,
    what: str,
) -> None:
    """Merge what stands under `path`; `batch_ndim` counts the environment's dimensions in the masks."""
    lazy = LazyStackedTensorDict
    if isinstance(fresh, lazy) and isinstance(old, lazy) and fresh.stack_dim == old.stack_dim:
        # Item by item, which may differ in keys and sizes.
        dim = fresh.stack_dim
        for place, (kept, new) in enumerate(zip(old.tensordicts, fresh.tensordicts, strict=True)):
            parts = {s: item_mask(mask, fresh.batch_size, dim, place) for s, mask in masks.items()}
            _merge(kept, new, parts, path, batch_ndim - (dim < batch_ndim), fill, what)
        return
    for name, new in fresh.items():
        key = (*path, name)
        kept = old.get(name, None)
        if isinstance(new, TensorDictBase) and not is_non_tensor(new) and kept is not None:
            _merge(kept, new, masks, key, batch_ndim, fill, what)
            continue
        mask = masks_for_key(masks, key, batch_ndim)
        if kept is None:
            if not fill and not bool(mask.all()):
                raise MissingKeyError(
                    f"a partial {what} keeps the rows outside '_{what}', but the tensordict has no {show_key(key)}"
                )
            old.set(name, new)
        elif not _alike(kept, new):
            raise RuntimeError(
                f"partial {what}: {show_key(key)} is {_text(kept)} in the tensordict"
                f" and {_text(new)} after the {what}"
            )
        elif isinstance(new, Tensor) and not new.is_nested:
            old.set(name, torch.where(rows_mask(mask, new, batch_ndim), new, kept))
        else:
            old.set(name, _row_by_row(mask.reshape(*mask.shape[:batch_ndim], -1).any(-1), new, kept))


def _row_by_row(rows: Tensor, new: Any, kept: Any) -> Any:
    """`new` where a row is selected and `kept` elsewhere, for values that are not tensors of one shape."""
    if bool(rows.all()):
        return new
    if not bool(rows.any()):
        return kept
    return join(
        [_row_by_row(*row) for row in zip(rows.unbind(0), new.unbind(0), kept.unbind(0), strict=True)], 0
    )


def _alike(left: Any, right: Any) -> bool:
    """Whether two values can be rows of one."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return isinstance(left, Tensor) == isinstance(right, Tensor)
    if left.dtype is not right.dtype or left.is_nested or right.is_nested:
        return left.dtype is right.dtype and left.is_nested == right.is_nested
    return left.shape == right.shape


def _text(value: Any) -> str:
    if not isinstance(value, Tensor):
        return "no tensor"
    return f"{value.dtype} {'nested' if value.is_nested else list(value.shape)}"


def refuse_done_after_reset(
    fresh: TensorDictBase, masks: Mapping[DoneSet, Tensor], roots: Sequence[DoneSet]
) -> None:
    """Refuse rows that are done right after their reset.

    Raises:
        RuntimeError: naming the flag.
    """
    for s in roots:
        done = fresh.get(s.done)
        mask = masks.get(s)
        if not done.is_meta and bool((done if mask is None else done & mask).any()):
            raise RuntimeError(
                f"{show_key(s.done)} is True right after reset; pass allow_done_after_reset=True to"
                " EnvBase.__init__ if that is meant"
            )
