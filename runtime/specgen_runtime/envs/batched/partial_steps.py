"""Partial steps of a batch: only the environments that a `_step` mask selects are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from specgen_runtime.envs.batched.rows import split_rows
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.envs.partial_steps import add_others
from specgen_runtime.envs.spec_leaves import leaves_of

if TYPE_CHECKING:
    from specgen_runtime.envs.batched.base import BatchedEnv

__all__ = ["step_some"]


def step_some(env: BatchedEnv[Any], tensordict: Any, mask: Tensor) -> Any:
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
    env._fill(row, place)
    specs = env._descriptions[place].specs
    leaves = [leaf for name in ("full_observation_spec", "full_done_spec") for leaf in leaves_of(specs[name])]
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
