"""Rollouts by the short way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from specgen_runtime.envs.done import mark_truncated
from specgen_runtime.envs.policy import as_policy, check_actions
from specgen_runtime.envs.rollout import (
    check_rollout_arguments,
    check_truncation,
    finish_rollout,
    start,
    step_through,
)

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.lean import LeanPath
    from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = ["lean_rollout", "takes_options"]


_OPTIONS = frozenset(
    {"auto_reset", "break_when_any_done", "tensordict", "set_truncated", "trust_policy", "return_contiguous"}
)


def takes_options(options: Mapping[str, Any]) -> bool:
    """Whether `lean_rollout` takes these keyword arguments of `EnvBase.rollout`."""
    return options.keys() <= _OPTIONS and options.get("return_contiguous") is not False


def lean_rollout(
    env: GymWrapper[Any],
    lean: LeanPath,
    max_steps: int,
    policy: Callable[..., Any] | None,
    *,
    auto_reset: bool = True,
    break_when_any_done: bool | None = None,
    return_contiguous: bool | None = None,
    tensordict: Any = None,
    set_truncated: bool = False,
    trust_policy: bool = False,
) -> Any:
    """Run a Gymnasium environment; see `EnvBase.rollout` for the arguments and errors."""
    any_stops = break_when_any_done is not False
    max_steps = check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    begin = None if auto_reset and tensordict is None else start(env, auto_reset, tensordict)
    if policy is None and not env._gym_source.draws_torch and (begin is None or lean.only_root(begin)):
        result = lean.roll(max_steps, begin, any_stops)
    else:
        act = env.rand_action if policy is None else as_policy(env._env_layout, policy, trust_policy)
        begin = env.reset() if begin is None else begin
        steps = step_through(env, max_steps, act, begin, any_stops=any_stops)
        result = finish_rollout(steps, 0, contiguous=return_contiguous)
        if policy is not None:
            check_actions(env._env_layout, result)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result
