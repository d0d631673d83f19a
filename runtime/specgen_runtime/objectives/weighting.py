"""Finds the mask of valid samples and the importance weights in the data of a loss."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import MASK_KEY
from specgen_runtime.envs.packing import peek
from specgen_runtime.objectives.keys import checked_key, required
from specgen_runtime.typing import NestedKey

MaskKey: TypeAlias = NestedKey | Literal["auto"] | None

AUTO_MASK_KEYS: tuple[NestedKey, ...] = (MASK_KEY, "shifted_valid")
"""Entries that mark valid positions: from samplers that pad, and from estimators that shift."""

_FIRST_NAMES = frozenset(key if isinstance(key, str) else key[0] for key in AUTO_MASK_KEYS)


def checked_mask_key(value: MaskKey, *, owner: str) -> MaskKey:
    """``value`` if it is ``"auto"``, None or a key.

    Raises:
        ValueError: if it is not.
    """
    if value is not None and value != "auto" and value != ("auto",):
        checked_key(value, owner=f"{owner}.loss_mask_key")
    return value


def checked_use_of_weights(value: object, *, owner: str) -> Literal["auto"] | bool:
    """``value`` if it is ``"auto"``, True or False.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool):
        return value
    if value == "auto":
        return "auto"
    raise ValueError(f"{owner}.use_prioritized_weights must be True, False or 'auto', got {value!r}")


def mask_of(tensordict: TensorDictBase, key: MaskKey, *, owner: str) -> Tensor | None:
    """The bool mask of valid samples, without a 1 behind the batch; None if all count.

    Raises:
        KeyError: if ``key`` names an entry that is not there.
    """
    if key is None:
        return None
    if key != "auto":
        return _per_sample(required(tensordict, key, owner=owner, role="the mask"), tensordict.ndim)
    mask: Tensor | None = None
    if type(tensordict) is TensorDict and _FIRST_NAMES.isdisjoint(tensordict._tensordict):
        return None
    for candidate in AUTO_MASK_KEYS:
        found = peek(tensordict, candidate)
        if isinstance(found, Tensor):
            found = _per_sample(found, tensordict.ndim)
            mask = found if mask is None else combined_mask(mask, found)
    return mask


def _per_sample(mask: Tensor, ndim: int) -> Tensor:
    while mask.ndim > ndim and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    return mask


def combined_mask(own: Tensor, mask: Tensor | None) -> Tensor:
    """Which samples count for both of two masks.

    Args:
        own: bool.
        mask: bool, with a trailing 1 or without, of leading dimensions of ``own`` or the other way round; None: all.

    Returns:
        In the shape of the larger one.
    """
    if mask is None:
        return own
    while mask.ndim > own.ndim and mask.shape[-1] == 1:
        mask = mask.squeeze(-1)
    ranks = max(own.ndim, mask.ndim)
    return own.reshape(own.shape + (1,) * (ranks - own.ndim)) & mask.reshape(
        mask.shape + (1,) * (ranks - mask.ndim)
    )


def weights_of(
    tensordict: TensorDictBase, key: NestedKey | None, use: Literal["auto"] | bool, *, owner: str
) -> Tensor | None:
    """The importance weights of the samples, or None.

    Raises:
        KeyError: if ``use`` is True and they are missing.
    """
    if key is None or use is False:
        return None
    if use is True:
        return required(tensordict, key, owner=owner, role="the priority weight")
    weights = peek(tensordict, key)
    return weights if isinstance(weights, Tensor) else None
