"""Partial steps: a `_step` mask in the root says which environments take the step; the others stay where they are.

What stays keeps its observations and done flags, as the root has them, and gets the reward 0. Nothing is computed of it
that anybody sees: counters do not count, sums do not grow. The mask is taken out of the tensordict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.checked import WrongDtypeError, check_entries
from specgen_runtime.envs.done import DoneSet, rootmost_sets
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.partial import merge_reset

if TYPE_CHECKING:
    from specgen_runtime.envs.stepping import Stepping

__all__ = ["add_others", "begin_partial", "check_rows", "keep_others", "skipped", "staying", "step_mask"]

_SHOWN = ("full_observation_spec", "full_done_spec")


def step_mask(env: Stepping[Any], tensordict: TensorDictBase) -> Tensor:
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
            f"{type(env).__name__}.step: '_step' must be torch.bool {list(size)}, one for each environment, found {found}"
        )
    mask: Tensor = given if env._device is None else given.to(env._device)
    return mask if shape == size else mask.squeeze(-1)


def check_rows(env: Stepping[Any], mask: Tensor) -> None:
    """Refuse to let only some rows step in an environment that would step them all, unseen.

    Raises:
        NotImplementedError: it keeps its state itself, and does not say that it reads the mask.
    """
    if not env._steps_rows():
        left_out = torch.nonzero(~mask).squeeze(-1).tolist()
        raise NotImplementedError(
            f"{type(env).__name__}.step: '_step' leaves out the environments {left_out}, but the state is not in the"
            " tensordict (there is no state_spec), so that they would go on unseen; if `_step` reads the mask and"
            " leaves the other rows alone, set `_supports_partial_steps = True` in the class"
        )


def begin_partial(env: Stepping[Any], tensordict: TensorDictBase) -> tuple[Tensor | None, Any]:
    """What a `_step` mask makes of a step.

    Args:
        env: the environment.
        tensordict: the root with the mask, which is taken out unless `_step` has to be called with it.

    Returns:
        The mask with which `_step` has to be called, or None; and what `"next"` is, if that is known already.

    Raises:
        RuntimeError: see `step_mask`.
        NotImplementedError: see `check_rows`.
    """
    mask = step_mask(env, tensordict)
    if bool(mask.all()):
        del tensordict["_step"]
        return None, None
    following = skipped(env, tensordict, mask, lambda rows: env.step(rows).get("next"))
    if following is None:
        tensordict.set("_step", mask)
        return mask, None
    del tensordict["_step"]
    return None, following


def skipped(
    env: Stepping[Any],
    tensordict: TensorDictBase,
    mask: Tensor,
    take: Callable[[TensorDictBase], TensorDictBase],
) -> TensorDictBase | None:
    """What becomes `"next"` where `_step` need not know of the mask: nobody steps, or rows can be taken out.

    Args:
        env: the environment.
        tensordict: the root.
        mask: of its batch size.
        take: from some rows of the root to their `"next"`, for environments that take any batch size.

    Returns:
        None if `_step` has to be called with the mask.

    Raises:
        NotImplementedError: see `check_rows`.
    """
    if not bool(mask.any()):
        return staying(env, tensordict).clone()
    if tensordict.batch_size == env.batch_size:
        check_rows(env, mask)
        return None
    taken = take(tensordict.exclude("_step")[mask])
    whole = staying(env, tensordict).clone()
    for key, value in taken.items(True, True):
        if isinstance(value, Tensor) and whole.get(key, None) is None:
            whole.set(key, value.new_zeros((*mask.shape, *value.shape[1:])))
    whole[mask] = taken
    return whole


def staying(env: Stepping[Any], tensordict: TensorDictBase, following: Any = None) -> TensorDictBase:
    """`"next"` of a root that stays where it is.

    Args:
        env: the environment.
        tensordict: the root.
        following: what `_step` gave, for the shapes of rewards whose sizes vary.

    Raises:
        KeyError: the root lacks an observation or a done flag: what stays must be there.
        RuntimeError: an entry is not as its spec says.
    """
    expected = env._expected(*_SHOWN)
    stay: Any = tensordict.select(*dict.fromkeys(e.leaf.key for e in expected), strict=False)
    check_entries(env, stay, expected, "step")
    if following is not None:
        rewards = following.select(*env.reward_keys, strict=False).apply(torch.zeros_like)
    else:
        spec, size = env._settled("full_reward_spec"), tensordict.batch_size
        rewards = spec.zero() if size == env.batch_size else spec.zero(size)
        place = stay.get(env._done_sets[0].done).device
        rewards = rewards.apply(lambda value: value.to(place))
    if rewards is not None:  # there may be none
        stay.update(rewards)
    return stay


def keep_others(
    env: Stepping[Any], tensordict: TensorDictBase, following: TensorDictBase, mask: Tensor
) -> TensorDictBase:
    """`"next"` after a step of some rows.

    Args:
        env: the environment.
        tensordict: the root.
        following: what `_step` gave, complete; only the rows in the mask mean something.
        mask: of the root's batch size.

    Raises:
        KeyError: see `staying`.
        RuntimeError: likewise.
    """
    stay = staying(env, tensordict, following)
    if following.get("_step", None) is not None:
        following = following.exclude("_step")
    add_others(stay, following, tensordict)
    masks: dict[DoneSet, Tensor] = {
        s: mask.reshape(*mask.shape, *(1,) * len(s.shape)).expand(*mask.shape, *s.shape)
        for s in rootmost_sets(env._done_sets)
    }
    merge_reset(stay, following, masks, fill=True, what="step")
    return stay


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
