"""Partial steps: a `_step` mask in the root says which environments take the step; the others stay where they are.

What stays keeps its observations and done flags, as the root has them, and gets the reward 0. Nothing is computed of it
that anybody sees: counters do not count, sums do not grow. The mask is taken out of the tensordict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.data_checks import WrongDtypeError, check_entries
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.partial_resets import merge_reset

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.layout import Layout

__all__ = ["add_others", "begin_partial", "keep_others", "set_masks", "step_mask"]


def step_mask(layout: Layout, tensordict: TensorDictBase) -> Tensor:
    """The `_step` mask of a root, compared with what it should be.

    Returns:
        bool, of the tensordict's batch size.

    Raises:
        RuntimeError: it has another shape than the batch size, or that and a last 1 as `done` has it; of another
            dtype than bool it is a TypeError, too.
    """
    given: Any = tensordict.get("_step")
    size = tensordict.batch_size
    shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
    if not isinstance(given, Tensor) or dtype is not torch.bool or shape not in (size, (*size, 1)):
        error = RuntimeError if dtype is torch.bool else WrongDtypeError
        found = f"{dtype} {list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise error(
            f"{layout.env}.step: '_step' must be torch.bool {list(size)}, one for each environment, found {found}"
        )
    mask: Tensor = given if layout.device is None else given.to(layout.device)
    return mask if shape == size else mask.squeeze(-1)


def begin_partial(env: EnvBase[Any], tensordict: TensorDictBase) -> tuple[Tensor | None, Any]:
    """What a `_step` mask makes of a step.

    Args:
        env: the environment.
        tensordict: the root with the mask, which is taken out unless `_step` has to be called with it.

    Returns:
        The mask with which `_step` has to be called, or None; and what `"next"` is, if that is known already: nobody
        steps, or the environment takes any batch size and stepped the rows in the mask alone.

    Raises:
        RuntimeError: see `step_mask`.
        NotImplementedError: the environment keeps its state itself, and does not say that it reads the mask: it
            would step all rows, unseen.
    """
    layout = env._env_layout
    mask = step_mask(layout, tensordict)
    if bool(mask.all()):
        del tensordict["_step"]
        return None, None
    whole = tensordict.batch_size == layout.batch_size
    if whole and bool(mask.any()):
        if not env._steps_rows():
            left_out = torch.nonzero(~mask).squeeze(-1).tolist()
            raise NotImplementedError(
                f"{layout.env}.step: '_step' leaves out the environments {left_out}, but the state is not in the"
                " tensordict (there is no state_spec), so that they would go on unseen; if `_step` reads the mask and"
                " leaves the other rows alone, set `_supports_partial_steps = True` in the class"
            )
        tensordict.set("_step", mask)
        return mask, None
    following = _staying(layout, tensordict).clone()
    if bool(mask.any()):
        taken = env.step(tensordict.exclude("_step")[mask]).get("next")
        for key, value in taken.items(True, True):
            if isinstance(value, Tensor) and following.get(key, None) is None:
                following.set(key, value.new_zeros((*mask.shape, *value.shape[1:])))
        following[mask] = taken
    del tensordict["_step"]
    return None, following


def _staying(layout: Layout, tensordict: TensorDictBase, following: Any = None) -> TensorDictBase:
    """`"next"` of a root that stays where it is.

    Args:
        layout: of the environment.
        tensordict: the root.
        following: what `_step` gave, for the shapes of rewards whose sizes vary.

    Raises:
        KeyError: the root lacks an observation or a done flag: what stays must be there.
        RuntimeError: an entry is not as its spec says.
    """
    expected = layout.observation.entries + layout.done.entries
    stay: Any = tensordict.select(*dict.fromkeys(e.leaf.key for e in expected), strict=False)
    check_entries(layout, stay, expected, "step")
    if following is not None:
        rewards = following.select(*layout.reward.keys, strict=False).apply(torch.zeros_like)
    else:
        spec, size = layout.reward.spec, tensordict.batch_size
        rewards = spec.zero() if size == layout.batch_size else spec.zero(size)
        place = stay.get(layout.done_sets[0].done).device
        rewards = rewards.apply(lambda value: value.to(place))
    if rewards is not None:  # there may be none
        stay.update(rewards)
    return stay


def keep_others(
    layout: Layout, tensordict: TensorDictBase, following: TensorDictBase, mask: Tensor
) -> TensorDictBase:
    """`"next"` after a step of some rows.

    Args:
        layout: of the environment.
        tensordict: the root.
        following: what `_step` gave, complete; only the rows in the mask mean something.
        mask: of the root's batch size.

    Raises:
        KeyError: the root lacks an observation or a done flag of the rows that stay.
        RuntimeError: an entry of the root is not as its spec says.
    """
    stay = _staying(layout, tensordict, following)
    if following.get("_step", None) is not None:
        following = following.exclude("_step")
    add_others(stay, following, tensordict)
    merge_reset(stay, following, set_masks(layout, mask), fill=True, what="step")
    return stay


def set_masks(layout: Layout, rows: Tensor) -> dict[DoneSet, Tensor]:
    """Rows of the batch, as a mask for each root-most done set, of the shape of its flags."""
    return {
        s: rows.reshape(*rows.shape, *(1,) * len(s.shape)).expand(*rows.shape, *s.shape)
        for s in layout.root_sets
    }


def add_others(stay: TensorDictBase, following: TensorDictBase, root: TensorDictBase) -> None:
    """Add what `_step` gave and no spec names: as the root has it, or zeros; in place."""
    have = {show_key(key) for key in stay.keys(True, True)}
    for key in following.keys(True, True):
        if show_key(key) in have:
            continue
        value, old = following.get(key), root.get(key, None)
        if not isinstance(value, Tensor) or value.is_nested:
            continue
        alike = isinstance(old, Tensor) and old.shape == value.shape and old.dtype is value.dtype
        stay.set(key, old if alike else torch.zeros_like(value))
