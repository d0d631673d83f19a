"""Partial resets: rows inside the mask are new, all others keep every entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import DoneSet, masks_for_key, rows_mask
from specgen_runtime.envs.keys import MissingKeyError, show_key

__all__ = ["merge_reset", "refuse_done_after_reset"]


def merge_reset(old: TensorDictBase, fresh: TensorDictBase, masks: Mapping[DoneSet, Tensor]) -> None:
    """Write `fresh` into `old`, in place, in the rows that the masks select.

    Raises:
        KeyError: `old` has no entry whose kept rows are needed.
        RuntimeError: an entry of `old` has another shape or dtype than the new one.
    """
    n = old.batch_dims
    for key in list(fresh.keys(True, True)):
        new, kept = fresh.get(key), old.get(key, None)
        mask = masks_for_key(masks, key, n)
        if kept is None:
            if bool(mask.all()):
                old.set(key, new)
                continue
            raise MissingKeyError(
                f"a partial reset keeps the rows outside '_reset', but the tensordict has no {show_key(key)}"
            )
        if not isinstance(new, Tensor):
            old.set(key, new)
            continue
        if kept.shape != new.shape or kept.dtype is not new.dtype:
            raise RuntimeError(
                f"partial reset: {show_key(key)} is {kept.dtype} {list(kept.shape)} in the tensordict"
                f" and {new.dtype} {list(new.shape)} after the reset"
            )
        old.set(key, torch.where(rows_mask(mask, new, n), new, kept))


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
        if bool((done if mask is None else done & mask).any()):
            raise RuntimeError(
                f"{show_key(s.done)} is True right after reset; pass allow_done_after_reset=True to"
                " EnvBase.__init__ if that is meant"
            )
