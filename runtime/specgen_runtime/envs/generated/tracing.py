"""Resets and rollouts without Python branches on tensors, for `torch.compile` and `torch.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from specgen_runtime.envs.checked import check_tensordict
from specgen_runtime.envs.done import mark_truncated, pop_reset_masks, rootmost_sets
from specgen_runtime.envs.packing import fast_td
from specgen_runtime.envs.partial import merge_reset
from specgen_runtime.envs.policy import as_policy
from specgen_runtime.envs.rollout import check_rollout_arguments, check_truncation, finish_rollout

if TYPE_CHECKING:
    from specgen_runtime.envs.generated import GeneratedEnv

__all__ = ["is_traced", "traced_reset", "traced_rollout"]


def is_traced() -> bool:
    """Whether torch compiles this call or maps it over a batch: then no branch can depend on a tensor."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def traced_reset(env: GeneratedEnv[Any], tensordict: Any) -> Any:
    """`EnvBase.reset` of a given tensordict; a mask that selects nothing is computed like any other."""
    check_tensordict(env, tensordict, "reset")
    masks = pop_reset_masks(tensordict, env._done_sets, env.device)
    fresh = fast_td(env._root_entries(env._fresh()), env.batch_size, env.device, agents=env._agents)
    if masks:
        merge_reset(tensordict, fresh, masks)
    else:
        tensordict.update(fresh)
    return tensordict


def traced_rollout(
    env: GeneratedEnv[Any],
    max_steps: int,
    policy: Callable[..., Any] | None,
    *,
    auto_reset: bool,
    any_stops: bool,
    tensordict: Any,
    set_truncated: bool,
    trust_policy: bool = False,
) -> Any:
    """A rollout of `max_steps` steps that does not stop early; see `EnvBase.rollout`.

    Whether the policy's actions are in the action spec is not checked.
    """
    check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    act = env.rand_action if policy is None else as_policy(env, policy, trust_policy)
    if auto_reset:
        current = env.reset(None if tensordict is None else tensordict.copy())
    elif tensordict is None:
        raise RuntimeError("rollout(auto_reset=False) needs a tensordict to start from")
    else:
        current = tensordict.copy()
        for s in rootmost_sets(env._done_sets):
            current.set(s.reset, current.get(s.done))
        current = traced_reset(env, current)
    steps = []
    for _ in range(max_steps - 1):
        step, current = env.step_and_maybe_reset(act(current))
        steps.append(step)
    steps.append(env.step(act(current)))
    result = finish_rollout(steps, env.ndim)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result
