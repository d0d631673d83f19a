"""Rollouts by the short way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict

from specgen_runtime.envs.done import mark_truncated
from specgen_runtime.envs.generated.packing import entries_of, fast_td, stack_tds
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
    check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    begin = None if auto_reset and tensordict is None else start(env, auto_reset, tensordict)
    if policy is None and not env._gym_source.draws_torch and (begin is None or lean.only_root(begin)):
        result = lean.roll(max_steps, begin, any_stops)
    else:
        act = env.rand_action if policy is None else as_policy(env, policy, trust_policy)
        begin = env.reset() if begin is None else begin
        result = _stacked(step_through(env, max_steps, act, begin, any_stops=any_stops), env.device)
        if policy is not None:
            check_actions(env, result)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result


def _stacked(records: list[Any], device: torch.device | None) -> Any:
    """The transitions stacked, by the cheap way if all are alike."""
    if not all(_plain(record) for record in records):
        return finish_rollout(records, 0)
    names = entries_of(records[0]).keys()
    inner = entries_of(records[0].get("next")).keys()
    for record in records:
        held = entries_of(record)
        if held.keys() != names or entries_of(held["next"]).keys() != inner:
            return finish_rollout(records, 0)
    try:
        entries = stack_tds(records, 0)
    except RuntimeError:  # sizes or dtypes that differ from step to step
        return finish_rollout(records, 0)
    return fast_td(entries, torch.Size((len(records),)), device, ["time"])


def _plain(record: Any) -> bool:
    """Whether a transition holds tensors only, in tensordicts of the usual kind."""
    if type(record) is not TensorDict:
        return False
    for name, value in entries_of(record).items():
        if isinstance(value, torch.Tensor):
            continue
        if name != "next" or type(value) is not TensorDict:
            return False
        if not all(isinstance(inner, torch.Tensor) for inner in entries_of(value).values()):
            return False
    return True
