"""Resets and steps of a batch row by row: each environment gets its row, and the answers are stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensordict import LazyStackedTensorDict, TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.arguments import as_kwargs
from specgen_runtime.envs.batched.rows import Memo, split_rows
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.envs.mdp import step_mdp
from specgen_runtime.envs.packing import peek, update_with
from specgen_runtime.envs.partial_steps import add_others, step_mask
from specgen_runtime.envs.spec_leaves import leaves_of

if TYPE_CHECKING:
    from specgen_runtime.envs.batched.base import BatchedEnv

__all__ = [
    "empty_rows",
    "lazy_step_mdp",
    "lazy_zero_transition",
    "observed_rows",
    "reset_rows",
    "step_and_reset_rows",
    "step_rows",
    "update_rows",
]

_OBSERVED = ("full_observation_spec", "full_done_spec")


def reset_rows(
    env: BatchedEnv[Any], rows: list[Any] | None, masks: Mapping[DoneSet, Tensor], kwargs: dict[str, Any]
) -> list[Any]:
    """Reset the environments that the masks select, and give the rows of all."""
    each = _each_kwargs(env, kwargs)
    if rows is None:
        fresh = env._run("reset", {place: (None, each[place]) for place in range(env.num_workers)})
        result = list(fresh.values())
        env._last.take(result)
        return result
    wanted: dict[int, Any] = {}
    result = list(rows)
    for place, row in enumerate(rows):
        parts = {s: mask[place] for s, mask in masks.items()}
        if masks and not all(bool(part.all()) for part in parts.values()):
            _fill(env, row, place)
        if not masks or any(bool(part.any()) for part in parts.values()):
            for s, part in parts.items():
                row.set(s.reset, part)
            wanted[place] = (row, each[place])
    for place, row in env._run("reset", wanted).items():
        result[place] = row
    env._last.take(result)
    return result


def observed_rows(env: BatchedEnv[Any], rows: Sequence[Any]) -> list[Any]:
    """The rows with observations and done flags alone."""
    found = []
    for row, each in zip(rows, env._descriptions, strict=True):
        found.append(
            row.select(
                *[leaf.key for name in _OBSERVED for leaf in leaves_of(each.specs[name])], strict=False
            )
        )
    return found


def _fill(env: BatchedEnv[Any], row: Any, place: int) -> None:
    """Add to a row what its environment last gave, where the caller left it out."""
    last = env._last.row(place)
    if last is None:
        return
    own = env._descriptions[place].specs
    for name in _OBSERVED:
        for leaf in leaves_of(own[name]):
            if not leaf.items and row.get(leaf.key, None) is None:
                value = last.get(leaf.key, None)
                if value is not None:
                    row.set(leaf.key, value)


def _each_kwargs(env: BatchedEnv[Any], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """The keyword arguments of each environment's reset."""
    several = kwargs.pop("list_of_kwargs", None)
    if several is None:
        return [kwargs] * env.num_workers
    return [{**own, **kwargs} for own in as_kwargs(env.num_workers, several, "list_of_kwargs")]


def step_rows(env: BatchedEnv[Any], tensordict: Any) -> Any:
    """One step of all environments (or those in a `_step` mask), row by row: `"next"`."""
    if peek(tensordict, "_step") is not None:
        return _step_some(env, tensordict, step_mask(env._env_layout, tensordict))
    memo: Memo = {}
    rows = split_rows(tensordict, memo)
    answers = list(env._run("step", dict(enumerate(rows))).values())
    env._last.take(answers)
    return env._stack(answers, memo)


def step_and_reset_rows(env: BatchedEnv[Any], tensordict: Any) -> tuple[Any, Any]:
    """One step of all environments, row by row: `"next"`, and the root after the resets."""
    memo: Memo = {}
    rows = split_rows(tensordict, memo)
    answers = list(env._run("step_and_maybe_reset", dict(enumerate(rows))).values())
    roots = [root for _, root in answers]
    env._last.take(roots)
    return env._stack([following for following, _ in answers], memo), env._stack(roots, memo)


def _step_some(env: BatchedEnv[Any], tensordict: Any, mask: Tensor) -> Any:
    """One step of some environments, row by row.

    Args:
        env: the batch.
        tensordict: its root.
        mask: of its batch size. An environment that is a batch itself gets its part, if that is not all or nothing.

    Returns:
        `"next"`.

    Raises:
        NotImplementedError: an environment that is a batch itself can only step all of its rows.
        KeyError: an environment that stays has no observation or done flag in the root, and gave none so far.
    """
    wanted: dict[int, Any] = {}
    staying: dict[int, Any] = {}
    rows = split_rows(tensordict)  # no memo: the masks of the rows do not stay, nor do their identities
    for place, row in enumerate(rows):
        part = mask[place]
        del row["_step"]
        if not bool(part.any()):
            staying[place] = _stay(env, row, place)
            continue
        if not bool(part.all()):
            own = env._descriptions[place]
            if not own.steps_rows:
                raise NotImplementedError(
                    f"{type(env).__name__}.step: '_step' leaves out some rows of environment {place}, but"
                    f" {own.name} can only step them all: see `_supports_partial_steps`"
                )
            row.set("_step", part)
        wanted[place] = row
    found = env._run("step", wanted) if wanted else {}
    if found and not env.share_individual_td:
        example = next(iter(found.values()))
        for place, row in staying.items():
            add_others(row, example, rows[place])
    following = [found[place] if place in found else staying[place] for place in range(env.num_workers)]
    env._last.take(following)
    return env._stack(following)


def _stay(env: BatchedEnv[Any], row: Any, place: int) -> Any:
    """`"next"` of an environment that is not asked, in memory of its own."""
    _fill(env, row, place)
    specs = env._descriptions[place].specs
    leaves = [leaf for name in _OBSERVED for leaf in leaves_of(specs[name])]
    for leaf in leaves:
        if leaf.find(row) is None:
            raise MissingKeyError(
                f"{type(env).__name__}.step: '_step' leaves out environment {place}, but the tensordict has no"
                f" {show_key(leaf.key)}, which it would keep"
            )
    kept = row.select(*dict.fromkeys(leaf.key for leaf in leaves), strict=False).clone()
    rewards = specs["full_reward_spec"].zero()
    if env._device is not None:
        rewards = rewards.to(env._device)
    return kept.update(rewards)


def lazy_step_mdp(env: BatchedEnv[Any], transition: Any) -> Any:
    """`step_mdp` where each environment has its own keys."""
    rows = []
    for row, each in zip(split_rows(transition), env._descriptions, strict=True):
        rewards, dones, actions = (
            [leaf.key for leaf in leaves_of(each.specs[name])]
            for name in ("full_reward_spec", "full_done_spec", "full_action_spec")
        )
        rows.append(
            step_mdp(row, exclude_action=False, reward_keys=rewards, done_keys=dones, action_keys=actions)
        )
    return LazyStackedTensorDict.lazy_stack(rows, 0)


def lazy_zero_transition(env: BatchedEnv[Any]) -> Any:
    """One transition of zeros as a lazy stack, a row for each environment."""
    root, following = empty_rows(env), empty_rows(env)
    for name in ("full_state_spec", *_OBSERVED, "full_action_spec"):
        update_rows(root, env._env_layout.specs[name].zero())
    for name in (*_OBSERVED, "full_reward_spec"):
        update_rows(following, env._env_layout.specs[name].zero())
    return root.set("next", following)


def empty_rows(env: BatchedEnv[Any]) -> Any:
    """A lazy stack of tensordicts with nothing in them, one for each environment."""
    inner = env._batch_size[1:]
    rows = [TensorDict({}, batch_size=inner, device=env._device) for _ in range(env.num_workers)]
    return LazyStackedTensorDict.lazy_stack(rows, 0)


def update_rows(lazy: Any, values: Any) -> None:
    """Update each row of a lazy stack by that of some values."""
    for own, row in zip(lazy.tensordicts, values.unbind(0), strict=True):
        update_with(own, row)
