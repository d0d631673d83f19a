"""Comparing tensordicts with the specs; every message names the key, what is expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.keys import MissingKeyError, show_key

if TYPE_CHECKING:
    from specgen_runtime.envs.key_access import Expected, KeyAccess

__all__ = ["check_entries", "check_tensordict"]


def check_tensordict(env: KeyAccess, tensordict: TensorDictBase, method: str) -> None:
    """Refuse an argument that is no tensordict, or of another batch size.

    Raises:
        TypeError: not a tensordict.
        RuntimeError: the batch size is not the environment's.
    """
    name = f"{type(env).__name__}.{method}"
    if not isinstance(tensordict, TensorDictBase):
        raise TypeError(f"{name} needs a tensordict, found {type(tensordict).__name__}")
    size = tensordict.batch_size
    if size != env.batch_size and (getattr(env, "batch_locked", True) or env.batch_size):
        raise RuntimeError(
            f"{name}: the tensordict has batch size {list(size)}, the environment {list(env.batch_size)}"
        )


def check_entries(
    env: KeyAccess, tensordict: TensorDictBase, expected: Iterable[Expected], method: str
) -> None:
    """Compare entries with their specs: presence, shape, dtype and device, but not the domain.

    Raises:
        KeyError: an entry is missing.
        RuntimeError: an entry differs.
    """
    whole = tensordict.batch_size
    for e in expected:
        value = e.leaf.find(tensordict)
        if value is None:
            name = f"{type(env).__name__}.{method}"
            wanted = "the tensordict has no" if method == "step" else "the result has no"
            found = sorted(show_key(key) for key in tensordict.keys(True, True))
            raise MissingKeyError(f"{name}: {wanted} {e.leaf} ({e.source}); found {', '.join(found)}")
        size = whole if not e.leaf.items else e.leaf.batch_of(whole)
        if not isinstance(value, torch.Tensor):
            if e.dtype is None:
                continue
            found_text = type(value).__name__
        elif value.is_nested:
            continue  # it has no shape to compare
        elif (
            e.fits(value.shape, size)
            and value.dtype is e.dtype
            and (e.device is None or value.device == e.device)
        ):
            continue
        else:
            place = "" if e.device is None else f" on {value.device}"
            found_text = f"{value.dtype} {list(value.shape)}{place}"
        expected_text = "no tensor" if e.dtype is None else f"{e.dtype} {[*size, *e.shape]}"
        if e.dtype is not None and e.device is not None:
            expected_text += f" on {e.device}"
        raise RuntimeError(
            f"{type(env).__name__}.{method}: {e.leaf} must be {expected_text} ({e.source}), found {found_text}"
        )
