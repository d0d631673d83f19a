"""What `EnvBase` does around `_reset` and `_step`: check, complete and merge what they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.data_checks import check_entries, check_flag_types, check_tensordict, fit_batch
from specgen_runtime.envs.done import any_done, complete_dones, pop_reset_masks, refuse_meta
from specgen_runtime.envs.finite import refuse_not_finite
from specgen_runtime.envs.in_place import noted_versions, refuse_changes
from specgen_runtime.envs.keys import as_tuple, join_key
from specgen_runtime.envs.packing import peek, put, update_with
from specgen_runtime.envs.partial_resets import merge_reset, refuse_done_after_reset
from specgen_runtime.envs.partial_steps import begin_partial, keep_others
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.layout import Layout

D = TypeVar("D", bound=TensorDictBase)

__all__ = [
    "complete_flags",
    "complete_step",
    "finish_reset",
    "reset",
    "step",
    "step_and_maybe_reset",
    "write_reset_masks",
    "written_by_policy",
]


def reset(env: EnvBase[D, Any], tensordict: D | None, set_state: bool | None, kwargs: dict[str, Any]) -> D:
    """Begin episodes in all environments, or in those that masks select; see `EnvBase.reset`."""
    env._refuse_if_closed()
    layout = env._env_layout
    masks_only = kwargs.pop("select_reset_only", False)
    if set_state is not None or env._supports_set_state:
        _choose_state(env, layout, set_state, tensordict, masks_only, kwargs)
    if tensordict is None:
        return finish_reset(env, None, env._reset(None, **kwargs), {})
    check_tensordict(layout, tensordict, "reset")
    reset_keys = [s.reset for s in layout.done_sets]
    request = tensordict.select(*reset_keys, strict=False) if masks_only else tensordict.copy()
    masks = pop_reset_masks(tensordict, layout.done_sets, layout.device)
    if masks and not any(bool(mask.any()) for mask in masks.values()):
        return tensordict
    held = noted_versions(layout.root_tensors, tensordict)
    fresh = env._reset(request, **kwargs)
    if fresh is request:
        raise RuntimeError(f"{layout.env}._reset returned its input; return a new tensordict")
    refuse_changes(layout, held, "_reset")
    return finish_reset(env, tensordict, fresh, masks)


def _choose_state(
    env: EnvBase[Any],
    layout: Layout,
    set_state: bool | None,
    tensordict: Any,
    masks_only: bool,
    kwargs: dict[str, Any],
) -> None:
    """Add `set_state` to the arguments of `_reset`, where it takes it."""
    if not env._supports_set_state:
        if set_state:
            raise NotImplementedError(
                f"{layout.env} cannot be reset to a given state (set_state=True): it does not declare"
                " _supports_set_state"
            )
        return
    if set_state is None:
        set_state = tensordict is not None and any(
            tensordict.get(key, None) is not None for key in layout.state.keys
        )
    kwargs["set_state"] = bool(set_state) and not masks_only


def finish_reset(env: EnvBase[D, Any], tensordict: D | None, fresh: Any, masks: dict[Any, torch.Tensor]) -> D:
    """Check what `_reset` returned, and write it into `tensordict` where the masks say so.

    Args:
        env: the environment.
        tensordict: what was to be reset; None for a result of its own.
        fresh: what `_reset` returned.
        masks: of the rows that were to be reset, without which all were.
    """
    layout = env._env_layout
    if not isinstance(fresh, TensorDictBase):
        raise TypeError(f"{layout.env}._reset returned {type(fresh).__name__}, not a tensordict")
    size = layout.batch_size if tensordict is None else tensordict.batch_size
    if fresh.batch_size != size and (layout.batch_locked or tensordict is not None):
        fit_batch(layout, fresh, size, "_reset")
    env._complete_dones(fresh)
    check_entries(layout, fresh, layout.observation.entries, "_reset", own=True)
    check_entries(layout, fresh, layout.done.entries, "_reset", own=True)
    for key in layout.reward.keys:
        if peek(fresh, key) is not None:
            raise RuntimeError(f"{layout.env}._reset returned the reward {key!r}; only _step gives rewards")
    if not env._allow_done_after_reset:
        refuse_done_after_reset(fresh, masks, layout.root_sets)
    if env._check_finite:
        refuse_not_finite(layout, fresh, layout.observation.entries, "_reset")
    env.__dict__["_begun"] = True
    if tensordict is None:
        root: D = fresh
        return root
    if masks and not all(bool(mask.all()) for mask in masks.values()):
        merge_reset(tensordict, fresh, masks, fill=not layout.state.keys)
    else:
        tensordict = cast("D", update_with(tensordict, fresh))
    return tensordict


def step(env: EnvBase[D, Any], tensordict: D) -> D:
    """Call `_step` and write what it gives to `"next"`, complete and checked; see `EnvBase.step`."""
    env._refuse_if_closed()
    layout = env._env_layout
    check_tensordict(layout, tensordict, "step")
    mask = None
    if peek(tensordict, "_step") is not None:
        mask, skip = begin_partial(env, tensordict)
        if skip is not None:
            tensordict.set("next", skip)
            return tensordict
    check_entries(layout, tensordict, layout.action.entries, "step")
    preset = peek(tensordict, "next")
    held = noted_versions(layout.root_tensors, tensordict)
    following = env._step(tensordict)
    if not isinstance(following, TensorDictBase):
        raise TypeError(f"{layout.env}._step returned {type(following).__name__}, not a tensordict")
    if following is tensordict:
        raise RuntimeError(f"{layout.env}._step returned its input; return a new tensordict")
    refuse_changes(layout, held, "_step")
    if preset is not None and _add_presets(layout, following, preset):
        complete_flags(layout, following)  # environments that know their own flags to be right skip it
    size = tensordict.batch_size
    if following.batch_size != size:
        fit_batch(layout, following, size, "_step")
    complete_step(env, following)
    check_entries(layout, following, layout.observation.entries, "_step", own=True)
    if mask is not None:
        following = keep_others(layout, tensordict, following, mask)
        del tensordict["_step"]
    if env._check_finite:
        refuse_not_finite(layout, following, layout.observation.entries + layout.reward.entries, "_step")
    if (
        type(following) is TensorDict
        and following.batch_size == size
        and following.device == tensordict.device
        and type(tensordict) is TensorDict
        and tensordict._td_dim_names is None
    ):
        put(tensordict, "next", following)
    else:
        tensordict.set("next", following)
    return tensordict


def complete_step(env: EnvBase[Any], following: TensorDictBase) -> None:
    """Complete what `_step` returned, in place, and compare its rewards and done flags with the specs.

    An environment that never set a reward spec may give no reward: it is 0.
    """
    layout = env._env_layout
    if layout.reward.is_default and layout.reward.keys and peek(following, "reward") is None:
        place = following.device if layout.device is None else layout.device
        following.set("reward", torch.zeros((*following.batch_size, 1), device=place))
    check_entries(layout, following, layout.reward.entries, "_step", own=True)
    env._complete_dones(following)
    check_entries(layout, following, layout.done.entries, "_step", own=True)


def complete_flags(layout: Layout, tensordict: TensorDictBase) -> None:
    """Write the done flags that `_reset` or `_step` left out, in place, and refuse contradicting ones."""
    try:
        complete_dones(tensordict, layout.done_sets, layout.device)
    except (NotImplementedError, TypeError):  # torch's, of flags that are no booleans
        check_flag_types(layout, tensordict)
        raise


def _add_presets(layout: Layout, following: TensorDictBase, preset: Any) -> bool:
    """Write into what `_step` returned the values that stood under `"next"` before, in place.

    What is complete (it has every observation, reward and done flag of the specs) is the result of an earlier step:
    none of it counts, but for entries that no spec names and `_step` did not give, such as those of a policy. Of
    anything else every value prevails, and flags that are not among them follow from those that are. This looks at
    the data only, so that copies, rows of rollouts and data from other processes are treated alike.

    Returns:
        Whether flags are among what prevails.

    Raises:
        TypeError: `preset` is no tensordict.
    """
    if not isinstance(preset, TensorDictBase):
        raise TypeError(f"'next' must be a tensordict, found {type(preset).__name__}")
    entries = (*layout.observation.entries, *layout.reward.entries, *layout.done.entries)
    if any(e.leaf.find(preset) is None for e in entries):
        following.exclude(*_outdated_flags(layout, preset), inplace=True)
        following.update(preset)
        return any(e.leaf.find(preset) is not None for e in layout.done.entries)
    known = {join_key(as_tuple(e.leaf.key)) for e in entries}
    for key in preset.keys(True, True):
        if join_key(as_tuple(key)) not in known and peek(following, key) is None:
            following.set(key, preset.get(key))
    return False


def written_by_policy(env: EnvBase[Any] | None, tensordict: TensorDictBase) -> TensorDictBase | None:
    """What the policy put under ``"next"`` before a step; None where that is the result of an earlier one."""
    preset: TensorDictBase | None = tensordict.get("next", None)
    if preset is None or env is None:
        return preset
    stepped = all(preset.get(key, None) is not None for key in env.done_keys)
    return None if stepped else preset


def _outdated_flags(layout: Layout, preset: TensorDictBase) -> list[NestedKey]:
    """The done flags that `_step` gave and that have to follow from those that were there before."""
    outdated: list[NestedKey] = []
    for s in layout.done_sets:
        flags = [key for key in (s.done, s.terminated, s.truncated) if key is not None]
        given = [key for key in flags if peek(preset, key) is not None]
        if s.done in given:
            outdated += [key for key in flags if key not in given]
        elif given:
            outdated.append(s.done)
    return outdated


def step_and_maybe_reset(env: EnvBase[D, Any], tensordict: D) -> tuple[D, D]:
    """A step, and the root that follows, in which what is done begins anew; see `EnvBase.step_and_maybe_reset`."""
    refuse_meta(env, env.device)
    tensordict = env.step(tensordict)
    root = env.step_mdp(tensordict)
    if not env.any_done(root):
        return tensordict, root
    layout = env._env_layout
    held = noted_versions(layout.reward_tensors, tensordict.get("next"))
    root = env.reset(root, select_reset_only=True)
    refuse_changes(layout, held, "_reset")
    return tensordict, root


def write_reset_masks(layout: Layout, tensordict: Any) -> bool:
    """Write `_reset` masks of what is done into a root, if anything is; returns whether it is."""
    if not any_done(tensordict, layout.done_sets):
        return False
    for s in layout.root_sets:
        tensordict.set(s.reset, tensordict.get(s.done).clone())
    return True
